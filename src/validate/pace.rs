//! The pace of a machine's cores while a plan runs, relative to their pace during calibration. The pace is estimated from the
//! plan's fit points, whose live runs are interleaved with the runs of held-out points.

use super::{Bound, Likeness, Work};
use crate::profile::{Fit, Profile};
use crate::stats::mean;
use serde::Serialize;

/// Factors on the profile's times on cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pace {
    /// Factor on the time of decoding images.
    pub decode: f64,
    /// Factor on the time of training steps on cores.
    pub step: f64,
}

/// A measured point from which the machine's present pace is fitted: its bottleneck, its throughput as the profile predicts it,
/// and its measured throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Witness {
    /// Bottleneck of the point, and what kind of work it is.
    pub likeness: Likeness,
    /// Throughput that the profile predicts [samples/s].
    pub predicted: f64,
    /// Median throughput of the live runs [samples/s].
    pub measured: f64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { decode: 1.0, step: 1.0 }
    }
}

const DECODING: Likeness = Likeness { bound: Bound::Cores, work: Work::OnHost };
const TRAINING: Likeness = Likeness { bound: Bound::Compute, work: Work::OnHost };

impl Pace {
    /// Returns the pace from the fit points whose bottleneck is real decoding, or real training on cores: the geometric mean of
    /// the ratio of predicted to measured throughput; 1 if there is no such point. Points that train on a GPU are left out,
    /// because their steps do not depend on the pace of the cores.
    #[must_use]
    pub fn from_witnesses(witnesses: &[Witness]) -> Pace {
        let factor = |likeness: Likeness| {
            let mine = witnesses.iter().filter(|witness| witness.likeness == likeness);
            let logs: Vec<f64> = mine.map(|of| (of.predicted / of.measured).ln()).collect();
            mean(&logs).filter(|log| log.is_finite()).map_or(1.0, f64::exp)
        };
        Pace { decode: factor(DECODING), step: factor(TRAINING) }
    }

    /// Returns the factor by which samples take longer in configurations with this bottleneck.
    #[must_use]
    pub fn factor(self, likeness: Likeness) -> f64 {
        match likeness {
            DECODING => self.decode,
            TRAINING => self.step,
            _ => 1.0,
        }
    }

    /// Returns the profile with its times on cores multiplied by the factors of this pace.
    #[must_use]
    pub fn applied(self, profile: &Profile) -> Profile {
        let mut profile = profile.clone();
        profile.decode.values_mut().for_each(|fit| slow(fit, self.decode));
        // Steps on GPUs do not depend on the pace of the cores.
        let steps = profile.step.values_mut().flat_map(|devices| devices.iter_mut());
        let on_cores = steps.filter(|(device, _)| device.starts_with("cpu"));
        on_cores.for_each(|(_, fit)| slow(fit, self.step));
        profile
    }
}

/// Multiplies all times of a fit by `factor`. Jitter is relative and stays.
fn slow(fit: &mut Fit, factor: f64) {
    for (index, (name, parameter)) in fit.parameters.iter_mut().enumerate() {
        if name == "jitter" {
            continue;
        }
        parameter.value *= factor;
        parameter.ci95 = parameter.ci95.map(|ends| ends.map(|end| end * factor));
        fit.draws.iter_mut().filter_map(|draw| draw.get_mut(index)).for_each(|at| *at *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Parameter;

    fn witness(likeness: Likeness, predicted: f64, measured: f64) -> Witness {
        Witness { likeness, predicted, measured }
    }

    #[test]
    fn machine_pace_is_estimated_from_fit_points_that_really_decode_or_train() {
        // System: points whose decoding is 20 and 25 % slower than predicted, a point whose steps are 10 % faster, and a timed
        // point, which does not depend on cores. Expectation: the geometric mean for decoding, 0.9 for steps, and the timed
        // point is ignored.
        let timed = Likeness { bound: Bound::Cores, work: Work::Timed };
        let pace = Pace::from_witnesses(&[
            witness(DECODING, 120.0, 100.0),
            witness(DECODING, 125.0, 100.0),
            witness(TRAINING, 90.0, 100.0),
            witness(timed, 200.0, 100.0),
        ]);
        assert!((pace.decode - 1.5_f64.sqrt()).abs() < 1e-12 && (pace.step - 0.9).abs() < 1e-12);
        assert_eq!((pace.factor(DECODING), pace.factor(timed)), (pace.decode, 1.0));
        assert_eq!(Pace::from_witnesses(&[witness(DECODING, 1.0, 0.0)]), Pace::default());
        assert_eq!(Pace::from_witnesses(&[]), Pace::default());
    }

    #[test]
    fn fit_points_that_train_on_a_gpu_leave_the_pace_of_cores_at_one() {
        // System: two points whose steps on a GPU take 1.25 times what the profile says, alone and beside a point whose steps on
        // cores take 0.9 times that. Expectation: the pace of cores is 1, then 0.9, and the factor for points on the GPU is 1.
        let gpu = Likeness { bound: Bound::Compute, work: Work::OnGpu };
        let slow = [witness(gpu, 125.0, 100.0), witness(gpu, 250.0, 200.0)];
        assert_eq!(Pace::from_witnesses(&slow), Pace::default());
        let pace = Pace::from_witnesses(&[slow[0], witness(TRAINING, 90.0, 100.0), slow[1]]);
        assert!((pace.step - 0.9).abs() < 1e-12, "{pace:?}");
        assert_eq!((pace.factor(TRAINING), pace.factor(gpu)), (pace.step, 1.0));
    }

    #[test]
    fn a_slower_machine_pace_scales_fitted_core_times_but_not_jitter() {
        let of = |value: f64| Parameter { value, ci95: Some([1.0, 3.0]), ..Parameter::default() };
        let fit = Fit {
            parameters: [("fixed".to_owned(), of(2.0)), ("jitter".to_owned(), of(0.1))].into(),
            draws: vec![vec![1.5, 0.2]],
            ..Fit::default()
        };
        let devices = ["cpu-1", "gpu"].map(|device| (device.to_owned(), fit.clone()));
        let profile = Profile {
            decode: [("jpeg".to_owned(), fit.clone())].into(),
            step: [("lenet5".to_owned(), devices.into())].into(),
            ..Profile::default()
        };
        let slow = Pace { decode: 2.0, step: 3.0 }.applied(&profile);
        let decode = &slow.decode["jpeg"];
        assert_eq!(decode.value("fixed"), Some(4.0));
        assert_eq!((decode.value("jitter"), &decode.draws[0]), (Some(0.1), &vec![3.0, 0.2]));
        assert_eq!(decode.parameters["fixed"].ci95, Some([2.0, 6.0]));
        assert_eq!(slow.step["lenet5"]["cpu-1"].value("fixed"), Some(6.0));
        assert_eq!(slow.step["lenet5"]["gpu"], fit);
        assert_eq!(Pace::default().applied(&profile), profile);
    }
}
