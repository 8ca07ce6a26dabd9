//! Factors on the times of a scenario's steps and samples, to be fitted to measured rows of training jobs.

use crate::law::DecodeLaw;
use crate::scenario::{Distribution, Job, Operation, ReadCpu, RequestPath, Scenario};
use serde::Serialize;

/// Factors on the times of scenario and profile; the same for all jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Factors {
    /// Factor on the step time.
    pub step: f64,
    /// Factor on the time that a loader's worker needs for a sample: latency and transfer of a request that is alone, decoding,
    /// delays, handing over. Resources that workers share (bandwidth, operations, cores) are unchanged.
    pub sample: f64,
}

impl Default for Factors {
    fn default() -> Factors {
        Factors { step: 1.0, sample: 1.0 }
    }
}

impl Factors {
    /// Returns the scenario with its times multiplied by these factors.
    #[must_use]
    pub fn applied(self, mut scenario: Scenario) -> Scenario {
        if self == Factors::default() {
            return scenario;
        }
        scenario.jobs.iter_mut().for_each(|job| self.change_job(job));
        let storages = scenario.storage.iter_mut();
        for path in storages.flat_map(|of| [&mut of.path].into_iter().chain(&mut of.warm)) {
            let RequestPath { per_stream, latency, cpu, .. } = path;
            *per_stream /= self.sample;
            *latency = latency.scaled(self.sample);
            *cpu = ReadCpu { fixed: cpu.fixed * self.sample, per_byte: cpu.per_byte * self.sample };
        }
        scenario
    }

    fn change_job(self, job: &mut Job) {
        let step = &mut job.step;
        step.fixed *= self.step;
        step.per_sample *= self.step;
        step.floor *= self.step;
        job.hand_off *= self.sample;
        for stage in &mut job.loader.stages {
            stage.per_sample.iter_mut().chain(&mut stage.per_item).for_each(|work| {
                *work = self.changed(work);
            });
        }
    }

    fn changed(self, work: &Operation) -> Operation {
        let longer = |of: &Distribution| of.scaled(self.sample);
        match work {
            Operation::Compute(time) => Operation::Compute(longer(time)),
            Operation::Delay(time) => Operation::Delay(longer(time)),
            Operation::Decode(DecodeLaw { fixed, per_byte, per_pixel }) => {
                Operation::Decode(DecodeLaw {
                    fixed: fixed * self.sample,
                    per_byte: per_byte * self.sample,
                    per_pixel: per_pixel * self.sample,
                })
            }
            Operation::Memcpy(per_byte) => Operation::Memcpy(per_byte * self.sample),
            Operation::Kernel(kernel) => Operation::Kernel(crate::scenario::Kernel {
                per_sample: kernel.per_sample * self.sample,
                ..*kernel
            }),
            Operation::Read | Operation::Copy | Operation::CopyStored => work.clone(),
        }
    }
}
