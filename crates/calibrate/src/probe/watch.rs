//! Measures how much others used the machine during a trial.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Instant;

/// Clock ticks per second of `/proc/stat`: a constant of Linux's interface.
const TICKS: f64 = 100.0;

/// Beginning of every reason for excluding a trial because others used the machine.
pub(super) const NOT_OURS: &str = "the machine was not ours";

/// Processor times of the machine up to one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Glance {
    at: Instant,
    /// Processor time of all processes [core-s].
    busy: f64,
    /// Time that a hypervisor gave to others, all cores together [core-s].
    steal: f64,
    /// Processor time of this process [core-s].
    own: f64,
}

/// Use of the machine between two glances.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Between {
    /// Wall time [s].
    pub seconds: f64,
    /// Cores that other processes kept busy, on average.
    pub others: f64,
    /// Share of the cores' time that a hypervisor took away.
    pub steal: f64,
}

/// Limits for the use of the machine by others during a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Number of cores that other processes may use, as a share of the cores needed by the trial; also the share
    /// of its time that a thread may wait for a core.
    pub others: f64,
    /// Share of the cores' time that a hypervisor may take away.
    pub steal: f64,
}

impl Glance {
    /// Reads the processor times of the machine now. Without `/proc`, use by others stays unnoticed.
    #[must_use]
    pub fn now() -> Glance {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let [busy, steal] = ticks(&stat);
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9;
        Glance { at: Instant::now(), busy, steal, own }
    }

    /// Returns the use of the machine from `earlier` to this glance, on a machine with `cores` cores.
    #[must_use]
    pub fn since(&self, earlier: &Glance, cores: f64) -> Between {
        let seconds = (self.at - earlier.at).as_secs_f64();
        let others = (self.busy - earlier.busy) - (self.own - earlier.own);
        let steal = self.steal - earlier.steal;
        Between {
            seconds,
            others: (others / seconds).max(0.0),
            steal: (steal / seconds / cores).max(0.0),
        }
    }
}

/// Returns the busy time (user + nice + system + irq + softirq) and the stolen time from the first line of
/// `/proc/stat` [core-s].
fn ticks(stat: &str) -> [f64; 2] {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<f64> =
        line.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect();
    let field = |index: usize| fields.get(index).copied().unwrap_or(0.0);
    let busy = field(0) + field(1) + field(2) + field(5) + field(6);
    [busy / TICKS, field(7) / TICKS]
}

impl Limits {
    /// Returns why a trial must not be used; `None` if it may be used. The trial had `threads` threads, which
    /// together used the processor for `core_seconds` and waited for cores for `waited` seconds. Of the cores that
    /// the trial does not need, other processes may use at most half, because cores share caches and memory.
    /// Processor time is counted in ticks, so a difference of two ticks proves nothing.
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
        if between.steal > self.steal && between.steal * cores > proven {
            let share = 100.0 * between.steal;
            return Some(format!("{NOT_OURS}: {share:.0} % stolen by its host"));
        }
        let needed = (core_seconds / between.seconds).clamp(0.1, cores);
        if between.others > self.others * needed + 0.5 * (cores - needed) && between.others > proven
        {
            let others = between.others;
            return Some(format!("{NOT_OURS}: others kept {others:.1} cores busy"));
        }
        // If there are more threads than cores, the trial's own threads wait for each other.
        let share = waited / (between.seconds * threads.max(1) as f64);
        if threads as f64 <= cores && share > self.others {
            let share = 100.0 * share;
            return Some(format!("{NOT_OURS}: waited for cores {share:.0} %"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_parsed_from_the_first_line_of_proc_stat() {
        let stat = "cpu  100 20 30 4000 50 6 7 80 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(ticks(stat), [1.63, 0.80]);
        assert_eq!(ticks(""), [0.0, 0.0]);
        assert_eq!(ticks("cpu x"), [0.0, 0.0]);
    }

    #[test]
    fn cpu_use_by_other_processes_is_computed_from_two_cpu_time_readings() {
        let at = Instant::now();
        let early = Glance { at, busy: 10.0, steal: 1.0, own: 2.0 };
        let late = Glance {
            at: at + std::time::Duration::from_secs(2),
            busy: 13.0,
            steal: 1.08,
            own: 4.0,
        };
        let between = late.since(&early, 4.0);
        assert_eq!((between.seconds, between.others), (2.0, 0.5));
        assert!((between.steal - 0.01).abs() < 1e-9);
    }

    #[test]
    fn trials_disturbed_by_other_processes_are_rejected() {
        let limits = Limits { others: 0.1, steal: 0.02 };
        let judge = |others: f64, steal: f64, waited: f64| {
            let between = Between { seconds: 1.0, others, steal };
            limits.judge(&between, 4.0, 2, 2.0, waited)
        };
        assert_eq!(judge(0.0, 0.0, 0.0), None);
        assert_eq!(judge(1.1, 0.0, 0.0), None, "two cores are not needed");
        assert!(judge(1.3, 0.0, 0.0).unwrap().contains("others kept 1.3 cores busy"));
        assert!(judge(0.0, 0.03, 0.0).unwrap().contains("3 % stolen"));
        assert!(judge(0.0, 0.0, 0.3).unwrap().contains("waited for cores 15 %"));
        let between = Between { seconds: 1.0, others: 0.0, steal: 0.0 };
        assert_eq!(limits.judge(&between, 1.0, 2, 1.0, 1.0), None, "they wait for each other");
        let between = Between { seconds: 0.05, others: 0.3, steal: 0.1 };
        assert_eq!(limits.judge(&between, 1.0, 1, 0.05, 0.0), None, "a tick proves nothing");
    }

    #[test]
    fn cpu_use_between_two_readings_is_never_negative() {
        let early = Glance::now();
        let between = Glance::now().since(&early, 1.0);
        assert!(between.others >= 0.0 && between.steal >= 0.0);
    }
}
