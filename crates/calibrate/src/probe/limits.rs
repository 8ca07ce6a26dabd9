//! How many cores and how much memory this process may use; no other module asks the system for them.
//!
//! The number of cores is that of the affinity mask, limited by the tightest quota of the process's control
//! groups (version 1 or 2) and of their parents; a quota may be a fraction of a core. Memory is the machine's,
//! limited by the same groups; the memory that the process allocates itself is also limited by `ulimit -v`.

use rustix::process::{Resource, getrlimit};
use rustix::thread::CpuSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory in which control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the number of cores that this process may use, rounded to a thousandth, such as `1.5`.
#[must_use]
pub fn cores() -> f64 {
    held_to(mask().len().max(1) as f64, Groups::here("cpu").cores())
}

/// Returns the numbers of the cores on which this process may run (its affinity mask); none if they are unknown.
#[must_use]
pub fn mask() -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// Returns how long quotas of this process's control groups, or of their parents, have held threads back so far, all cores
/// together [core-s]; 0 without quotas.
#[must_use]
pub fn throttled() -> f64 {
    Groups::here("cpu").throttled()
}

/// Returns the number of threads that keep the cores of this process busy: a fraction of a core takes a thread
/// of its own.
#[must_use]
pub fn threads() -> usize {
    cores().ceil().max(1.0) as usize
}

/// Returns whether a control group of this process, or one of their parents, throttles reads of a disk.
#[must_use]
pub fn throttled_disks() -> bool {
    let groups = [Groups::here("blkio"), Groups::here("io")];
    groups.iter().any(Groups::throttles_reads)
}

/// Returns the main memory that this process may use in all [B]; 0 if it is unknown.
#[must_use]
pub fn memory() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limits = [kibibytes(&text, "MemTotal"), Groups::here("memory").memory().limit];
    limits.into_iter().flatten().reduce(f64::min).unwrap_or(0.0)
}

/// Returns the main memory that is free or that the page cache would give back, without swapping [B]; infinite
/// if it is unknown.
#[must_use]
pub fn free_memory() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let limits = [kibibytes(&text, "MemAvailable"), Groups::here("memory").memory().free];
    limits.into_iter().flatten().fold(f64::INFINITY, f64::min)
}

/// Returns how much of the free memory this process can allocate [B]: `ulimit -v` limits its address space, but
/// not the page cache.
#[must_use]
pub fn allocatable_memory() -> f64 {
    let own = own_limit().map_or(f64::INFINITY, |limit| (limit - own_memory()).max(0.0));
    free_memory().min(own)
}

/// Returns the number of cores of an affinity mask, limited by a quota and rounded to a thousandth.
fn held_to(affinity: f64, quota: Option<f64>) -> f64 {
    let cores = quota.map_or(affinity, |quota| quota.min(affinity));
    // Rounding makes all places that print or read this number agree; a thousandth is far below what can be
    // noticed.
    ((cores * 1000.0).round() / 1000.0).max(0.001)
}

/// Returns the limit of this process's address space, `ulimit -v` [B]; `None` if there is none.
fn own_limit() -> Option<f64> {
    getrlimit(Resource::As).current.map(|bytes| bytes as f64)
}

/// Returns the memory that this process has mapped [B].
fn own_memory() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kibibytes(&text, "VmSize").unwrap_or(0.0)
}

/// Returns the size in the line that begins with `name` and a colon, such as `VmSize: 1234 kB`, in bytes [B].
fn kibibytes(text: &str, name: &str) -> Option<f64> {
    let value = after(text, name)?;
    value.split_whitespace().next()?.parse::<f64>().ok().map(|kibibytes| kibibytes * 1024.0)
}

/// Returns the text after `name` and a colon in the first line that begins with `name`.
pub(super) fn after(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The control groups of a process, versions 1 and 2, whose controller limits it.
struct Groups(Vec<PathBuf>);

/// The memory that control groups allow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Memory {
    /// Limit for the memory of all processes in the control group [B].
    limit: Option<f64>,
    /// Memory below the limit that is not in use, counting the page cache as free [B].
    free: Option<f64>,
}

impl Groups {
    /// Returns the control groups of this process with `controller`, such as "cpu".
    fn here(controller: &str) -> Groups {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Groups::find(Path::new(GROUPS), &groups, controller)
    }

    /// Returns the control groups below `root` with `controller`, and their parents. `groups` names the control groups in the
    /// format of `/proc/self/cgroup`.
    fn find(root: &Path, groups: &str, controller: &str) -> Groups {
        let mut found = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
            let mounts: &[&str] = match controllers {
                "" => &["", "unified"],
                _ if controllers.split(',').any(|of| of == controller) => &[controllers],
                _ => &[],
            };
            let inside = Path::new(group.trim_start_matches('/'));
            for top in mounts.iter().map(|mount| root.join(mount)) {
                found.extend(inside.ancestors().map(|part| top.join(part)));
            }
        }
        Groups(found)
    }

    /// Returns the tightest quota [cores]; `None` if there is none.
    fn cores(&self) -> Option<f64> {
        let quota = |group: &PathBuf| {
            let number = |name: &str| read(group, name)?.trim().parse::<f64>().ok();
            let ratio = |text: String| {
                let (quota, period) = text.trim().split_once(' ')?;
                Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
            };
            let old = || Some(number("cpu.cfs_quota_us")? / number("cpu.cfs_period_us")?);
            read(group, "cpu.max").and_then(ratio).or_else(old).filter(|cores| *cores > 0.0)
        };
        self.0.iter().filter_map(quota).reduce(f64::min)
    }

    /// Returns how long quotas have held threads back [core-s]: `throttled_usec` of version 2, `throttled_time` [ns] of version 1.
    fn throttled(&self) -> f64 {
        let held = |group: &PathBuf| {
            let text = read(group, "cpu.stat")?;
            let line = |name: &str| {
                let value = text.lines().find_map(|line| line.strip_prefix(name))?;
                value.trim().parse::<f64>().ok()
            };
            let old = || Some(line("throttled_time ")? * 1e-9);
            line("throttled_usec ").map(|time| time * 1e-6).or_else(old)
        };
        self.0.iter().filter_map(held).sum()
    }

    /// Returns whether a group throttles reads: by `io.max` of version 2, or by `blkio.throttle` of version 1.
    fn throttles_reads(&self) -> bool {
        let reads = |group: &PathBuf| {
            let new = read(group, "io.max").unwrap_or_default();
            let mut limits = new.split_whitespace().filter_map(|word| word.split_once('='));
            let names = ["blkio.throttle.read_bps_device", "blkio.throttle.read_iops_device"];
            let old = |name: &&str| read(group, name).is_some_and(|text| !text.trim().is_empty());
            limits.any(|(key, value)| key.starts_with('r') && value != "max")
                || names.iter().any(old)
        };
        self.0.iter().any(reads)
    }

    /// Returns the tightest limits of memory.
    fn memory(&self) -> Memory {
        let least = |a: Option<f64>, b: f64| Some(a.map_or(b, |a| a.min(b)));
        let mut found = Memory::default();
        for group in &self.0 {
            let number = |name: &str| read(group, name)?.trim().parse::<f64>().ok();
            let names = [
                ("memory.max", "memory.current"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ];
            for (limit, used) in names {
                let Some(limit) = number(limit).filter(|limit| *limit > 0.0) else { continue };
                let left = limit - number(used).unwrap_or(0.0) + cached(group).unwrap_or(0.0);
                found.limit = least(found.limit, limit);
                found.free = least(found.free, left.clamp(1.0, limit.max(1.0)));
            }
        }
        found
    }
}

fn read(group: &Path, name: &str) -> Option<String> {
    fs::read_to_string(group.join(name)).ok()
}

/// Returns the page cache of a control group [B]; `None` if it is unknown.
fn cached(group: &Path) -> Option<f64> {
    let text = read(group, "memory.stat")?;
    let line = |name: String| {
        let value = text.lines().find_map(|line: &str| line.strip_prefix(&name));
        value?.trim().parse::<f64>().ok()
    };
    // The page cache holds files that were read twice as active; it gives them back all the same.
    let of =
        |kind: &str| line(format!("total_{kind}_file ")).or_else(|| line(format!("{kind}_file ")));
    Some(of("inactive")? + of("active").unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file below a directory.
    fn write(place: &Path, path: &str, text: &str) {
        let path = place.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn limits_of_control_groups_and_their_parents_are_applied() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(place.path(), path, text);
        write("cpu/a/cpu.cfs_quota_us", "-1\n");
        write("cpu/a/cpu.cfs_period_us", "100000\n");
        write("cpu/a/b/cpu.cfs_quota_us", "50000\n");
        write("cpu/a/b/cpu.cfs_period_us", "100000\n");
        write("memory/m/memory.limit_in_bytes", "300000000\n");
        let found = |groups: &str| {
            let of = |controller| Groups::find(place.path(), groups, controller);
            (of("cpu").cores(), of("memory").memory())
        };
        let memory = Memory { limit: Some(3e8), free: Some(3e8) };
        assert_eq!(
            found("3:cpu,cpuacct:/\n3:cpu:/a/b\n2:memory:/m/gone\n0::/\n"),
            (Some(0.5), memory)
        );
        write("s/cpu.max", "150000 100000\n");
        write("s/t/cpu.max", "max 100000\n");
        write("s/t/memory.max", "max\n");
        assert_eq!(found("0::/s/t\n"), (Some(1.5), Memory::default()));
        assert_eq!(found("nonsense"), (None, Memory::default()));
    }

    #[test]
    fn time_held_back_by_quotas_is_summed_over_nested_groups() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(place.path(), path, text);
        write("cpu/a/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 2500000000\n");
        write("cpu/a/b/cpu.stat", "nr_periods 9\nnr_throttled 1\nthrottled_time 500000000\n");
        write("s/cpu.stat", "usage_usec 7\nnr_throttled 1\nthrottled_usec 1500000\n");
        let found = |groups: &str| Groups::find(place.path(), groups, "cpu").throttled();
        assert_eq!(found("3:cpu:/a/b\n"), 3.0);
        assert_eq!(found("0::/s\n"), 1.5);
        assert_eq!(found("nonsense"), 0.0);
    }

    #[test]
    fn throttled_reads_are_seen_in_both_versions_of_control_groups() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(place.path(), path, text);
        write("blkio/a/blkio.throttle.read_bps_device", "7:0 44000000\n");
        write("blkio/b/blkio.throttle.read_iops_device", "\n");
        write("s/io.max", "8:0 rbps=max wbps=100 riops=max wiops=max\n");
        write("s/t/io.max", "8:0 rbps=max wbps=max riops=120 wiops=max\n");
        let found = |groups: &str| Groups::find(place.path(), groups, "blkio").throttles_reads();
        let all = ["3:blkio:/a\n", "3:blkio:/b\n", "0::/s\n", "0::/s/t\n"].map(found);
        assert_eq!(all, [true, false, false, true]);
    }

    #[test]
    fn free_memory_excludes_used_memory_but_includes_the_page_cache() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| write(place.path(), path, text);
        write("s/memory.max", "1000000\n");
        write("s/memory.current", "900000\n");
        write("s/memory.stat", "anon 5\ninactive_file 200000\nactive_file 100000\n");
        write("s/t/memory.max", "600000\n");
        write("s/t/memory.current", "350000\n");
        let found = |groups: &str| Groups::find(place.path(), groups, "memory").memory();
        assert_eq!(found("0::/s/t\n"), Memory { limit: Some(6e5), free: Some(2.5e5) });
        write("memory/memory.limit_in_bytes", "500000\n");
        write("memory/memory.usage_in_bytes", "700000\n");
        let beyond = Memory { limit: Some(5e5), free: Some(1.0) };
        assert_eq!(found("2:memory:/\n"), beyond, "it is beyond its limit");
    }

    #[test]
    fn fractions_of_cores_are_rounded_to_a_thousandth() {
        assert_eq!(held_to(8.0, None), 8.0);
        assert_eq!(held_to(8.0, Some(1.3)), 1.3);
        assert_eq!(held_to(1.0, Some(1.99)), 1.0);
        assert_eq!(held_to(2.0, Some(33_333.0 / 99_999.0)), 0.333);
        assert!(cores() > 0.0 && threads() >= 1 && memory() > 1e6 && free_memory() > 0.0);
    }
}
