//! Calibration plans: what to measure. Parsing is strict, so that unknown keys are errors.

mod value;

pub use value::{Bytes, Count, List, Seconds, Share, Tables};

use super::{
    BurstProbe, BurstSettings, CacheProbe, CacheSettings, ClockProbe, ClockSettings,
    ClusterSettings, CollectiveProbe, CollectiveSettings, CopyProbe, CopySettings, DecodeProbe,
    DecodeSettings, DeviceName, GateProbe, GateSettings, HostProbe, HostSettings, Limits, Probe,
    ProbeError, PytorchProbe, PytorchSettings, QueueProbe, QueueSettings, ReadProbe, ReadSettings,
    ServiceProbe, ServiceSettings, StepProbe, StepSettings,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Time limit for all probes together.
    pub budget: Seconds,
    /// Random seed of the order of trials, of the order of reads and of generated data (default: 0).
    #[serde(default)]
    pub seed: u32,
    /// Length and number of trials (default: the defaults of its keys).
    #[serde(default)]
    pub trials: Rules,
    /// Limits beyond which a trial counts as one beside others (default: the defaults of its keys).
    #[serde(default)]
    pub watch: Watching,
    /// Times the clock and an empty loop (default: not measured).
    pub clock: Option<ClockSettings>,
    /// Times copies of memory by several threads (default: not measured).
    pub host: Option<HostSettings>,
    /// Times the hand-over of samples from workers to trainers (default: not measured).
    pub queue: Option<QueueSettings>,
    /// Reads without a pause until the throughput falls, for the token bucket of a storage (default: not measured).
    pub burst: Option<BurstSettings>,
    /// Reads after a rest until the storage stops, for the gate of a throttle (default: not measured).
    pub gate: Option<GateSettings>,
    /// Reads small requests beside large ones, for the order in which a storage serves them (default: not measured).
    pub service: Option<ServiceSettings>,
    /// Times reads of files (default: not measured).
    pub read: Option<ReadSettings>,
    /// Times the decoding of images (default: not measured).
    pub decode: Option<DecodeSettings>,
    /// Times what PyTorch's `DataLoader` costs: decoding, collating, taking batches, starting workers (default: not measured).
    pub pytorch: Option<PytorchSettings>,
    /// Times training steps: one table, or several `[[step]]` of which each has its own networks, batches and devices
    /// (default: not measured).
    pub step: Option<Tables<StepSettings>>,
    /// Times copies from the host to a GPU (default: not measured).
    pub copy: Option<CopySettings>,
    /// Times collectives between GPUs (default: not measured).
    pub collective: Option<CollectiveSettings>,
    /// Measures how many reads of a working set hit the page cache (default: not measured).
    pub cache: Option<CacheSettings>,
    /// What several nodes measure together: network, shared storage, collectives. The probes above then run on each node alone (default:
    /// the plan is for one machine).
    pub cluster: Option<ClusterSettings>,
}

/// Length and number of trials, for all probes.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Approximate time of a trial (default: "100 ms"). Trials of reads go on up to twenty times as long where throughput comes in
    /// bursts, as behind a throttle, if the budget leaves time for three trials of each kind.
    pub length: Seconds,
    /// Number of first trials of each kind that are discarded as warm-up (default: 1).
    pub warm_up: u32,
    /// Smallest number of trials of each kind (default: 6).
    pub at_least: Count,
    /// Largest number of trials of each kind (default: 20).
    pub at_most: Count,
    /// Precision at which a kind needs no more trials: half of the width of the median's 95 % confidence
    /// interval, divided by the median (default: 0.03).
    pub precision: Share,
}

/// Limits beyond which a trial counts as one beside others. It counts all the same: profiles tell what was found beside others from
/// what was found alone.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Watching {
    /// Number of cores of this process that others may use, as a share of the cores needed by a trial (default: 0.1).
    pub others: Share,
    /// Share of the cores' time that a hypervisor may take (default: 0.02).
    pub steal: Share,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            length: Seconds(0.1),
            warm_up: 1,
            at_least: Count(6),
            at_most: Count(20),
            precision: Share(0.03),
        }
    }
}

impl Default for Watching {
    fn default() -> Watching {
        Watching { others: Share(0.1), steal: Share(0.02) }
    }
}

impl Watching {
    /// Returns these settings as limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits { others: self.others.0, steal: self.steal.0 }
    }
}

/// The error that a plan cannot be used; its message names the place in the plan and says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {message}")]
pub struct PlanError {
    file: String,
    message: String,
}

/// Returns the JSON Schema of a calibration plan, made from the types that parse it.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Plan).to_value()
}

impl Plan {
    /// Parses the text of a plan; `file` is its name for messages.
    ///
    /// # Errors
    ///
    /// The text is no valid plan.
    pub fn parse(file: &str, text: &str) -> Result<Plan, PlanError> {
        let refuse = |message: String| PlanError { file: file.to_owned(), message };
        let plan: Plan = toml::from_str(text).map_err(|error| refuse(explain(&error)))?;
        if plan.trials.at_most.0 < plan.trials.at_least.0 {
            let Rules { at_least, at_most, .. } = plan.trials;
            return Err(refuse(format!(
                "trials.at_most ({}) is less than trials.at_least ({}); raise `at_most`",
                at_most.0, at_least.0
            )));
        }
        let read = plan.read.as_ref().and_then(ReadSettings::problem);
        let decode = || plan.decode.as_ref().and_then(DecodeSettings::problem);
        let copy = || plan.copy.as_ref().and_then(CopySettings::problem);
        let gate = || plan.gate.as_ref().and_then(GateSettings::problem);
        let service = || plan.service.as_ref().and_then(ServiceSettings::problem);
        let cluster = || plan.cluster.as_ref().and_then(ClusterSettings::problem);
        let problem = read.or_else(decode).or_else(copy).or_else(gate).or_else(service);
        if let Some(problem) = problem.or_else(cluster) {
            return Err(refuse(problem));
        }
        Ok(plan)
    }

    /// Returns the probes of the plan, for a machine with `cores` cores. Probes that read or decode files use
    /// the user's own data below `data`, if it is given.
    ///
    /// # Errors
    ///
    /// There is nothing to read below `data`.
    pub fn probes(
        &self,
        cores: f64,
        data: Option<&Path>,
    ) -> Result<Vec<Box<dyn Probe>>, ProbeError> {
        let mut probes: Vec<Box<dyn Probe>> = Vec::new();
        if let Some(settings) = &self.clock {
            probes.push(Box::new(ClockProbe::new(settings)));
        }
        if let Some(settings) = &self.host {
            probes.push(Box::new(HostProbe::new(settings, cores)));
        }
        if let Some(settings) = &self.queue {
            probes.push(Box::new(QueueProbe::new(settings)));
        }
        if let Some(settings) = &self.burst {
            probes.push(Box::new(BurstProbe::new(settings)));
        }
        if let Some(settings) = &self.gate {
            probes.push(Box::new(GateProbe::new(settings)));
        }
        if let Some(settings) = &self.service {
            probes.push(Box::new(ServiceProbe::new(settings)));
        }
        if let Some(settings) = &self.read {
            probes.push(Box::new(ReadProbe::new(settings, data.map(Path::to_owned))?));
        }
        if let Some(settings) = &self.decode {
            probes.push(Box::new(DecodeProbe::new(settings, cores, data.map(Path::to_owned))));
        }
        if let Some(settings) = &self.pytorch {
            probes.push(Box::new(PytorchProbe::new(settings, cores)));
        }
        if let Some(settings) = &self.step {
            probes.push(Box::new(StepProbe::new(&settings.0)));
        }
        if let Some(settings) = &self.copy {
            probes.push(Box::new(CopyProbe::new(settings)));
        }
        if let Some(settings) = &self.collective {
            probes.push(Box::new(CollectiveProbe::new(settings)));
        }
        if let Some(settings) = &self.cache {
            probes.push(Box::new(CacheProbe::new(settings)));
        }
        Ok(probes)
    }

    /// Returns whether the plan measures GPUs.
    #[must_use]
    pub fn measures_gpus(&self) -> bool {
        let on_gpu = |device: &DeviceName| matches!(device, DeviceName::Cuda(_));
        let mut steps = self.step.iter().flat_map(|tables| &tables.0);
        let steps = steps.any(|table| table.device.iter().any(on_gpu));
        steps || self.copy.is_some() || self.collective.is_some()
    }

    /// Returns the time limit for all probes together.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.budget.duration()
    }
}

/// Returns the parser's message, which names the place, with a remedy.
fn explain(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let remedy = if error.message().contains("unknown field") {
        "remove the key, or write one of these"
    } else if error.message().contains("missing field") {
        "add the key"
    } else if error.message().contains("expected a string") {
        "quantities are written in quotes, with a unit: \"50 ms\", \"64 KiB\""
    } else {
        "change the value; calibrate/plans/full.toml has an example of each key"
    };
    format!("{}\n{remedy}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Plan::parse("p.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn settings_missing_from_a_measurement_plan_take_default_values() {
        let plan =
            Plan::parse("p.toml", "budget = \"1 min\"\n[trials]\nlength = \"10 ms\"").unwrap();
        assert_eq!(plan.budget(), Duration::from_secs(60));
        assert_eq!((plan.trials.length, plan.trials.warm_up), (Seconds(0.01), 1));
        assert!(!plan.measures_gpus());
        let step = "budget = \"1 min\"\n[step]\nmodel = [\"lenet5\"]\nbatch = [1]\ndevice = ";
        let measures = |device: &str| {
            Plan::parse("p", &format!("{step}{device}")).map(|of| of.measures_gpus())
        };
        assert_eq!(measures("[\"cpu\"]"), Ok(false));
        assert_eq!(measures("[\"cpu\", \"cuda:1\"]"), Ok(true));
    }

    #[test]
    fn error_messages_name_file_line_key_and_remedy() {
        let message = refused("budget = \"1 min\"\n[trials]\nlenght = \"10 ms\"");
        for part in
            ["p.toml: ", "line 3", "unknown field `lenght`", "`length`", "write one of these"]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(refused("budget = 60").contains("in quotes, with a unit"));
        assert!(refused("budget = \"60\"").contains("a time needs a unit"));
        assert!(refused("seed = 1").contains("missing field `budget`"));
        assert!(refused("budget = \"1 s\"\n[trials]\nat_least = 0").contains("1 to 65536"));
        let few = refused("budget = \"1 s\"\n[trials]\nat_most = 3");
        assert!(few.contains("trials.at_most (3) is less than trials.at_least (6)"), "{few}");
        let service = |keys: &str| refused(&format!("budget = \"1 s\"\n[service]\n{keys}"));
        let alike = service("disk = \"4 MiB\"\nsmall = \"300 KiB\"");
        assert!(alike.contains("write at most half of `large`"), "{alike}");
        let few = service("disk = \"1 MiB\"");
        assert!(few.contains("service.disk") && few.contains("2457600 B"), "{few}");
    }
}
