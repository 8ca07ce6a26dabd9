//! Measures how much others took of the cores of this process during a trial.

use super::limits;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Instant;

/// Clock ticks per second of `/proc/stat`: a constant of Linux's interface.
const TICKS: f64 = 100.0;

/// Processor times up to one instant: of the cores on which this process may run, not of the whole machine, because what runs
/// elsewhere takes nothing from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    at: Instant,
    /// Number of cores of the affinity mask.
    mask: f64,
    /// Processor time of all processes on the mask's cores [core-s].
    busy: f64,
    /// Time that a hypervisor gave to others, all cores of the mask together [core-s].
    steal: f64,
    /// Processor time of this process [core-s].
    own: f64,
    /// Time that quotas of the control groups of this process held threads back [core-s].
    throttled: f64,
}

/// Use of the process's cores between two glances.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Between {
    /// Wall time [s].
    pub seconds: f64,
    /// Number of cores of the affinity mask.
    pub mask: f64,
    /// Cores of the mask that other processes kept busy, on average.
    pub others: f64,
    /// Share of the mask's time that a hypervisor took away.
    pub steal: f64,
    /// Cores that quotas of the process's control groups held back, on average.
    pub throttled: f64,
}

impl Between {
    /// Returns the use without that of processes that the trial itself started, which used the processor for `core_seconds`.
    #[must_use]
    pub fn without(self, core_seconds: f64) -> Between {
        let others = (self.others - core_seconds / self.seconds).max(0.0);
        Between { others, ..self }
    }
}

/// Limits beyond which a trial counts as one beside others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Number of cores that other processes may use, as a share of the cores needed by the trial; also the share
    /// of its time that a thread may wait for a core.
    pub others: f64,
    /// Share of the cores' time that a hypervisor may take away.
    pub steal: f64,
}

impl Glance {
    /// Reads the processor times of this process and of its cores now. Where `/proc` cannot be read, nothing
    /// counts as taken by other processes.
    #[must_use]
    pub fn now() -> Glance {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let mask = limits::mask();
        let [busy, steal] = ticks(&stat, &mask);
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9;
        let mask = mask.len().max(1) as f64;
        Glance { at: Instant::now(), mask, busy, steal, own, throttled: limits::throttled() }
    }

    /// Returns the use of the process's cores from `earlier` to this glance.
    #[must_use]
    pub fn since(&self, earlier: &Glance) -> Between {
        let seconds = (self.at - earlier.at).as_secs_f64();
        let others = (self.busy - earlier.busy) - (self.own - earlier.own);
        let steal = self.steal - earlier.steal;
        Between {
            seconds,
            mask: self.mask,
            others: (others / seconds).max(0.0),
            steal: (steal / seconds / self.mask).max(0.0),
            throttled: ((self.throttled - earlier.throttled) / seconds).max(0.0),
        }
    }
}

/// Returns the busy time (user + nice + system + irq + softirq) and the stolen time of the cores in `mask` from a text in the
/// format of `/proc/stat` [core-s]; those of all cores if it lists none of the mask's, as in some containers.
fn ticks(stat: &str, mask: &[usize]) -> [f64; 2] {
    let of = |line: &str| {
        let fields: Vec<f64> =
            line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0.0);
        let busy = field(0) + field(1) + field(2) + field(5) + field(6);
        [busy / TICKS, field(7) / TICKS]
    };
    let on_mask = |line: &&str| {
        let name = line.split_whitespace().next().and_then(|name| name.strip_prefix("cpu"));
        name.and_then(|number| number.parse().ok()).is_some_and(|core| mask.contains(&core))
    };
    let each = stat.lines().filter(on_mask).map(of);
    let sum = each.reduce(|sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    sum.unwrap_or_else(|| of(stat.lines().next().unwrap_or_default()))
}

impl Limits {
    /// Returns what others took from a trial, if it is more than these limits allow; `None` if the process was alone on its cores.
    /// The process may use `cores` cores. The trial had `threads` threads, which together used the processor for `core_seconds`
    /// and waited for cores for `waited` seconds. Of the mask's cores that the trial does not need, other processes may use at
    /// most half, because cores share caches and memory. Processor time is counted in ticks, so a difference of two ticks proves
    /// nothing.
    #[must_use]
    pub fn judge(
        &self,
        between: &Between,
        cores: f64,
        threads: usize,
        core_seconds: f64,
        waited: f64,
    ) -> Option<String> {
        let proven = 2.5 / TICKS / between.seconds;
        if between.steal > self.steal && between.steal * between.mask > proven {
            let share = 100.0 * between.steal;
            return Some(format!("the host took cores: {share:.0} % of their time"));
        }
        let needed = (core_seconds / between.seconds).clamp(0.1_f64.min(cores), cores);
        let spare = (between.mask - needed).max(0.0);
        if between.others > self.others * needed + 0.5 * spare && between.others > proven {
            let others = between.others;
            return Some(format!("others kept cores busy: {others:.1} cores"));
        }
        // The trial's threads wait for each other if they are more than cores; then each can have only its part of the cores.
        let threads = threads.max(1) as f64;
        let asked = core_seconds + waited;
        let own = 1.0 - (cores / threads).min(1.0);
        let excess = waited - own * asked;
        let of = if threads <= cores { between.seconds * threads } else { asked };
        if excess > self.others * of {
            let share = 100.0 * excess / of;
            return Some(format!("threads waited for cores: {share:.0} % of their time"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_of_the_cores_in_the_affinity_mask_are_parsed_from_proc_stat() {
        let stat =
            "cpu  100 20 30 4000 50 6 7 80 0 0\ncpu0 1 1 1 1\ncpu1 60 0 0 0 0 0 0 5\ncpu10 7 0 0\n";
        assert_eq!(ticks(stat, &[1]), [0.6, 0.05]);
        assert_eq!(ticks(stat, &[0, 1, 10]), [0.7, 0.05]);
        assert_eq!(ticks(stat, &[64]), [1.63, 0.80], "a list without the cores of the mask");
        assert_eq!(ticks("", &[0]), [0.0, 0.0]);
        assert_eq!(ticks("cpu x", &[0]), [0.0, 0.0]);
    }

    #[test]
    fn cpu_use_by_other_processes_is_computed_from_two_cpu_time_readings() {
        let at = Instant::now();
        let early = Glance { at, mask: 4.0, busy: 10.0, steal: 1.0, own: 2.0, throttled: 0.5 };
        let late = Glance {
            at: at + std::time::Duration::from_secs(2),
            busy: 13.0,
            steal: 1.08,
            own: 4.0,
            throttled: 0.7,
            ..early
        };
        let between = late.since(&early);
        assert_eq!((between.seconds, between.others), (2.0, 0.5));
        assert!((between.steal - 0.01).abs() < 1e-9 && (between.throttled - 0.1).abs() < 1e-9);
        assert_eq!([between.without(0.6).others, between.without(2.0).others], [0.2, 0.0]);
    }

    #[test]
    fn trials_from_which_others_take_cores_are_told_from_those_alone() {
        let limits = Limits { others: 0.1, steal: 0.02 };
        let judge = |others: f64, steal: f64, waited: f64| {
            let between = Between { seconds: 1.0, mask: 4.0, others, steal, throttled: 0.0 };
            limits.judge(&between, 4.0, 2, 2.0, waited)
        };
        assert_eq!(judge(0.0, 0.0, 0.0), None);
        assert_eq!(judge(1.1, 0.0, 0.0), None, "two cores are not needed");
        assert!(judge(1.3, 0.0, 0.0).unwrap().contains("others kept cores busy: 1.3 cores"));
        assert!(judge(0.0, 0.03, 0.0).unwrap().contains("3 % of their time"));
        assert!(judge(0.0, 0.0, 0.3).unwrap().contains("waited for cores: 15 %"));
        let short = Between { seconds: 0.05, mask: 1.0, others: 0.3, steal: 0.1, throttled: 0.0 };
        assert_eq!(limits.judge(&short, 1.0, 1, 0.05, 0.0), None, "a tick proves nothing");
    }

    /// Two threads that share one core, or the core and a half of a quota, wait for each other and not for others.
    #[test]
    fn threads_that_wait_for_each_other_are_not_beside_others() {
        let limits = Limits { others: 0.1, steal: 0.02 };
        let judge = |cores: f64, core_seconds: f64, waited: f64| {
            let between = Between { seconds: 1.0, mask: 2.0, ..Between::default() };
            limits.judge(&between, cores, 2, core_seconds, waited)
        };
        assert_eq!(judge(1.0, 1.0, 1.0), None);
        assert_eq!(judge(1.5, 1.5, 0.5), None);
        assert!(judge(1.5, 1.0, 1.0).unwrap().contains("waited for cores: 25 %"));
    }

    #[test]
    fn cpu_use_between_two_readings_is_never_negative() {
        let early = Glance::now();
        let between = Glance::now().since(&early);
        assert!(between.others >= 0.0 && between.steal >= 0.0 && between.throttled >= 0.0);
    }
}
