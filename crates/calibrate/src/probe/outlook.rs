//! What would spoil a calibration, found before it starts.

use super::{Glance, limits};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How long other programs are watched: some ten of the kernel's scheduling periods, and little enough to wait for.
const WATCHED: Duration = Duration::from_millis(500);
/// Cores that others may keep busy, or share of the time that a host may take, before it is said.
const NOTABLE: f64 = 0.05;
/// Share of a file system in use from which on it counts as full: below, allocators find contiguous space.
const FULL: f64 = 0.95;
/// Free space below which the plans that are shipped may not fit [B].
const ROOM: u64 = 2 << 30;
/// Vendors of clouds, as firmware names them.
const CLOUDS: [&str; 4] = ["Amazon EC2", "Google", "Microsoft Corporation", "Alibaba Cloud"];

/// Something that would spoil a calibration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spoiler {
    /// What it is about: `affinity`, `quota`, `neighbours`, `frequency`, `disk`, `throttle`, `bursts`.
    pub about: &'static str,
    /// What was found, and what to do.
    pub text: String,
}

/// Returns what would spoil a calibration whose files lie in `directory`. Takes half a second, to watch others.
#[must_use]
pub fn spoilers(directory: &Path) -> Vec<Spoiler> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mask, cores) = (limits::mask().len(), limits::cores());
    let before = Glance::now();
    thread::sleep(WATCHED);
    let between = Glance::now().since(&before);
    let statfs = rustix::fs::statfs(directory).ok();
    let space =
        statfs.map(|of| [of.f_blocks, of.f_bavail].map(|blocks| blocks * of.f_bsize as u64));
    let found = [
        affinity(mask, &read("/sys/devices/system/cpu/online")),
        quota(mask, cores),
        neighbours(between.others, between.steal),
        frequency(&governors()),
        space.and_then(|[all, free]| disk(all, free)),
        limits::throttled_disks().then(throttle),
        bursts(read("/sys/class/dmi/id/sys_vendor").trim()),
    ];
    found.into_iter().flatten().collect()
}

fn affinity(mask: usize, online: &str) -> Option<Spoiler> {
    let all = listed(online.trim())?;
    (mask > 0 && mask < all).then(|| Spoiler {
        about: "affinity",
        text: format!(
            "this process may use {mask} of {all} cores: give live runs the same affinity mask (taskset, srun)"
        ),
    })
}

/// Returns the number of cores in a list such as `0-3,8`.
fn listed(list: &str) -> Option<usize> {
    let part = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(to.parse::<usize>().ok()?.checked_sub(from.parse().ok()?)? + 1)
    };
    list.split(',').map(part).sum()
}

fn quota(mask: usize, cores: f64) -> Option<Spoiler> {
    (cores < mask as f64).then(|| Spoiler {
        about: "quota",
        text: format!(
            "a quota holds this process to {cores} of {mask} cores, in periods of about 100 ms: write trials of \"200 ms\" or \
             longer in the plan, and run under the same quota"
        ),
    })
}

fn neighbours(others: f64, steal: f64) -> Option<Spoiler> {
    let text = match () {
        () if others > NOTABLE => format!("others keep {others:.1} of its cores busy"),
        () if steal > NOTABLE => format!("its host takes {:.0} % of its cores", 100.0 * steal),
        () => return None,
    };
    let text = format!(
        "{text}: trials count all the same, and the profile tells those alone from those beside others"
    );
    Some(Spoiler { about: "neighbours", text })
}

/// Returns the governor of each group of cores whose clock changes together, such as `powersave`.
fn governors() -> Vec<String> {
    let policies = fs::read_dir("/sys/devices/system/cpu/cpufreq").into_iter().flatten().flatten();
    let governor = |path: &Path| fs::read_to_string(path.join("scaling_governor")).ok();
    policies.filter_map(|policy| governor(&policy.path())).map(|of| of.trim().to_owned()).collect()
}

fn frequency(governors: &[String]) -> Option<Spoiler> {
    let varying = governors.iter().find(|of| *of != "performance")?;
    Some(Spoiler {
        about: "frequency",
        text: format!(
            "the clock of the cores varies with their load (governor {varying}): short trials on idle cores look slow; \
             `cpupower frequency-set -g performance` holds it"
        ),
    })
}

fn disk(all: u64, free: u64) -> Option<Spoiler> {
    let used = 1.0 - free as f64 / all.max(1) as f64;
    (free < ROOM || used > FULL).then(|| Spoiler {
        about: "disk",
        text: format!(
            "the file system here is {:.0} % full, with {:.1} GB free: plans write up to 1.6 GB, and a full disk is slow to \
             write; name another --directory",
            100.0 * used,
            free as f64 / 1e9
        ),
    })
}

fn throttle() -> Spoiler {
    Spoiler {
        about: "throttle",
        text: "a control group throttles reads of this process, in slices of 100 ms: trials of reads take up to twenty times as long"
            .to_owned(),
    }
}

fn bursts(vendor: &str) -> Option<Spoiler> {
    CLOUDS.contains(&vendor).then(|| Spoiler {
        about: "bursts",
        text: format!(
            "a disk of a cloud ({vendor}) may be fast until its credits are used up: compare `bandwidth` and `operations` of the \
             profile with what the volume is sold for"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(found: Option<Spoiler>) -> &'static str {
        found.map_or("", |of| of.about)
    }

    #[test]
    fn what_spoils_a_calibration_is_told_from_what_does_not() {
        assert_eq!(about(affinity(1, "0-1\n")), "affinity");
        assert_eq!(about(affinity(6, "0-3,8,9\n")), "");
        assert_eq!(about(affinity(6, "")), "");
        assert_eq!((about(quota(2, 1.5)), about(quota(2, 2.0))), ("quota", ""));
        assert_eq!(
            (about(neighbours(0.4, 0.0)), about(neighbours(0.01, 0.01))),
            ("neighbours", "")
        );
        assert!(neighbours(0.0, 0.1).unwrap().text.contains("its host takes 10 %"));
        let governors =
            |names: &[&str]| names.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>();
        assert_eq!(about(frequency(&governors(&["performance", "powersave"]))), "frequency");
        assert_eq!(about(frequency(&governors(&["performance"]))), "");
        assert_eq!(about(disk(100 << 30, 50 << 30)), "");
        assert_eq!(
            (about(disk(100 << 30, 1 << 30)), about(disk(100 << 30, 4 << 30))),
            ("disk", "disk")
        );
        assert_eq!((about(bursts("Amazon EC2")), about(bursts("QEMU"))), ("bursts", ""));
    }
}
