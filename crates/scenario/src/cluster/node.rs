//! The hardware of a node.

use super::gpu::GpuName;
use super::intra::{Intra, IntraSettings};
use super::or_infinite;
use super::page_cache::{self, PageCache, PageCacheWritten};
use super::power::{Power, PowerSettings};
use super::smt::{Smt, SmtSettings};
use crate::check::Check;
use crate::document::NodeId;
use crate::field::{Field, List};
use crate::number::{Cores, Count, Factor, Positive};
use crate::profile::Profile;
use crate::role::Role;
use forebay_model::catalogue::Gpu;
use forebay_model::units::{Bandwidth, Size};
use schemars::JsonSchema;
use serde::Deserialize;

/// Hardware of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Number of CPU cores that threads can run on at once.
    pub cores: u32,
    /// Core-seconds per second that all threads together get: less than `cores` if a CPU quota allows only a part of
    /// one core.
    pub usable_cores: f64,
    /// Speed of a core while n cores are busy, relative to a core that is busy alone: in entry n − 1. The last entry
    /// holds for any larger number of cores. Empty if cores do not slow each other down.
    pub core_speed: Vec<f64>,
    /// Hardware threads of each core; `None`: one.
    pub smt: Option<Smt>,
    /// How threads get cores.
    pub scheduling: Scheduling,
    /// Number of accelerators.
    pub gpus: u32,
    /// Speed of an accelerator relative to the accelerator for which step times were given.
    pub gpu_speed: f64,
    /// The accelerator's entry in the catalogue of GPUs, if the scenario names it.
    pub gpu: Option<&'static Gpu>,
    /// Memory of each accelerator [B]; infinite where not given.
    pub gpu_memory: f64,
    /// Bandwidth of an accelerator's memory, for reads and writes of its kernels together [B/s]; infinite where not
    /// given.
    pub gpu_memory_bandwidth: f64,
    /// Main memory [B]; infinite where not given.
    pub memory: f64,
    /// Bandwidth of main memory, shared by the loaders' cores and by copies to devices [B/s]; infinite where not
    /// given.
    pub memory_bandwidth: f64,
    /// Host-to-device bandwidth of each GPU [B/s]; infinite where not given.
    pub pcie: f64,
    /// Link between the GPUs of a node.
    pub intra: Intra,
    /// Number of NICs that collectives use; the node's GPUs are distributed among them.
    pub nics: u32,
    /// Page cache for the files that the node reads; `None`: no page cache.
    pub page_cache: Option<PageCache>,
    /// Power that the node draws, if the scenario states it.
    pub power: Option<Power>,
}

/// How threads get cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// All runnable threads share the cores evenly, none faster than one core (an operating
    /// system's scheduler).
    Shared,
    /// Each piece of work holds one core from start to end, also while it waits for memory, an interpreter's lock or a
    /// quota; others queue in order of arrival. Threads of one computation queue one by one.
    Fifo,
}

/// Hardware of a node.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeSettings {
    /// Number of CPU cores, possibly fractional, such as 1.5 under a quota (default: those of the profile's machine).
    /// Threads run on whole cores; together they get at most this many core-seconds per second.
    #[schemars(extend("x-role" = Role::Limit))]
    cores: Field<Cores>,
    /// Speed of a core while 1, 2, 3 … threads compute, relative to a core that is busy alone; the last value holds
    /// for more threads. More values than cores say how cores slow while threads wait for them (default: as the
    /// profile says, or 1).
    #[schemars(extend("x-role" = Role::Limit))]
    core_speed: Field<List<Factor>>,
    /// Hardware threads of each core (default: one).
    #[schemars(extend("x-role" = Role::Limit))]
    smt: Field<SmtSettings>,
    /// How threads get cores (default: "shared").
    #[schemars(extend("x-role" = Role::Choice))]
    scheduling: Field<Scheduling>,
    /// Number of accelerators (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    gpus: Field<Count<1, 10_000>>,
    /// Speed of an accelerator relative to the accelerator for which step times are given (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    gpu_speed: Field<Factor>,
    /// Name of the accelerator in the catalogue of GPUs, such as "v100-sxm2" (default: not set; its step times are
    /// given instead).
    #[schemars(extend("x-role" = Role::Choice))]
    gpu: Field<GpuName>,
    /// Memory of each accelerator; everything that training keeps on the accelerator must fit into it (default: that
    /// of `gpu`, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    gpu_memory: Field<Positive<Size>>,
    /// Bandwidth of an accelerator's memory, at which learners average their models or add up their gradients
    /// (default: that of `gpu`, or infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    gpu_memory_bandwidth: Field<Positive<Bandwidth>>,
    /// Main memory (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    memory: Field<Positive<Size>>,
    /// Bandwidth of main memory, shared by the loaders' cores (according to their jobs' `memory_traffic`) and by
    /// copies to devices (default: infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    memory_bandwidth: Field<Positive<Bandwidth>>,
    /// Host-to-device bandwidth of each GPU (default: as the profile says, for the number of threads that decode images, or
    /// infinite).
    #[schemars(extend("x-role" = Role::Limit))]
    pcie: Field<Positive<Bandwidth>>,
    /// Link between the GPUs of a node (default: infinitely fast).
    #[schemars(extend("x-role" = Role::Limit))]
    intra: Field<IntraSettings>,
    /// Number of NICs that collectives use, each of bandwidth `cluster.network.nic`; GPUs are distributed among
    /// them, and NCCL's rings and trees have a channel for each NIC (default: 1).
    #[schemars(extend("x-role" = Role::Limit))]
    nics: Field<Count<1, 1_000>>,
    /// Page cache for the files that the node reads. Write "none" if files are larger than the memory, bypass the
    /// page cache, or were measured cold (default: if `memory` is set, the part of it that workers, buffers and data
    /// in memory leave free; otherwise "none").
    #[schemars(extend("x-role" = Role::Limit))]
    pub(super) page_cache: Field<PageCacheWritten>,
    /// Power that the node draws: `{ idle = "300 W", gpu = "250 W", core = "8 W" }` (default: not set).
    #[schemars(extend("x-role" = Role::Output))]
    power: Field<PowerSettings>,
}

impl NodeSettings {
    /// Returns these settings, with the keys that are not set taken from `base`.
    pub(super) fn over(&self, base: &NodeSettings) -> NodeSettings {
        NodeSettings {
            cores: self.cores.or(&base.cores),
            core_speed: self.core_speed.or(&base.core_speed),
            smt: self.smt.or(&base.smt),
            scheduling: self.scheduling.or(&base.scheduling),
            gpus: self.gpus.or(&base.gpus),
            gpu_speed: self.gpu_speed.or(&base.gpu_speed),
            gpu: self.gpu.or(&base.gpu),
            // If these settings name another GPU, the memory size of the GPU in `base` does not apply.
            gpu_memory: match self.gpu.is_written() {
                true => self.gpu_memory.clone(),
                false => self.gpu_memory.or(&base.gpu_memory),
            },
            gpu_memory_bandwidth: match self.gpu.is_written() {
                true => self.gpu_memory_bandwidth.clone(),
                false => self.gpu_memory_bandwidth.or(&base.gpu_memory_bandwidth),
            },
            memory: self.memory.or(&base.memory),
            memory_bandwidth: self.memory_bandwidth.or(&base.memory_bandwidth),
            pcie: self.pcie.or(&base.pcie),
            intra: both(&self.intra, &base.intra, IntraSettings::over),
            nics: self.nics.or(&base.nics),
            page_cache: both(&self.page_cache, &base.page_cache, PageCacheWritten::over),
            power: both(&self.power, &base.power, PowerSettings::over),
        }
    }

    /// Returns whether the number of cores is written.
    pub(super) fn writes_cores(&self) -> bool {
        self.cores.is_written()
    }

    /// Returns whether the speed of cores is written.
    pub(super) fn writes_core_speed(&self) -> bool {
        self.core_speed.is_written()
    }

    pub(super) fn resolve(&self, check: Check<'_>, at: NodeId) -> Option<Node> {
        let usable_cores = self.cores(check, at)?;
        let scheduling = self.scheduling.get().copied().unwrap_or(Scheduling::Shared);
        if scheduling == Scheduling::Fifo && usable_cores.fract() != 0.0 {
            let what = format!(
                "\"fifo\" scheduling needs a whole number of cores, and there are {usable_cores}"
            );
            let remedy = "write a whole number of `cores`, or `scheduling = \"shared\"`";
            check.wrong(self.cores.at.unwrap_or(at), what, remedy);
        }
        Some(Node {
            cores: usable_cores.ceil() as u32,
            usable_cores,
            core_speed: self.core_speed(check, usable_cores.ceil() as u32, scheduling),
            smt: match self.smt.given() {
                Some((at, smt)) => Some(smt.resolve(check, at, scheduling)?),
                None => None,
            },
            scheduling,
            gpus: self.gpus.get().map_or(1, |gpus| gpus.small()),
            gpu_speed: self.gpu_speed.get().map_or(1.0, |speed| speed.0),
            gpu: self.gpu.get().map(|name| name.0),
            gpu_memory: self.gpu_memory(),
            gpu_memory_bandwidth: self.gpu_memory_bandwidth(),
            memory: or_infinite(&self.memory),
            memory_bandwidth: or_infinite(&self.memory_bandwidth),
            pcie: self.pcie(check),
            nics: self.nics.get().map_or(1, |nics| nics.small()),
            intra: match self.intra.given() {
                Some((at, intra)) => intra.resolve(check, at)?,
                None => IntraSettings::default().resolve(check, at)?,
            },
            page_cache: page_cache::resolve(&self.page_cache, check, at, &self.memory)?,
            power: match self.power.given() {
                Some((at, power)) => Some(power.resolve(check, at)?),
                None => None,
            },
        })
    }
}

/// Combines two fields with `over` if both are set; otherwise returns the one that is set.
fn both<T: Clone>(own: &Field<T>, base: &Field<T>, over: fn(&T, &T) -> T) -> Field<T> {
    match (own.given(), base.get()) {
        (Some((at, own)), Some(base)) => Field { at: Some(at), value: Some(over(own, base)) },
        _ => own.or(base),
    }
}

impl NodeSettings {
    fn pcie(&self, check: Check<'_>) -> f64 {
        let measured = || check.profile?.copy_bandwidth(0);
        let written = self.pcie.get().map(|bandwidth| bandwidth.0);
        written.or_else(measured).unwrap_or(f64::INFINITY)
    }

    fn gpu_memory(&self) -> f64 {
        let of_gpu = self.gpu.get().map_or(f64::INFINITY, |name| name.0.memory);
        self.gpu_memory.get().map_or(of_gpu, |memory| memory.0)
    }

    fn gpu_memory_bandwidth(&self) -> f64 {
        let of_gpu = self.gpu.get().map_or(f64::INFINITY, |name| name.0.memory_bandwidth);
        self.gpu_memory_bandwidth.get().map_or(of_gpu, |bandwidth| bandwidth.0)
    }

    /// Returns the number of cores that all threads together may use, possibly fractional; reports a problem and
    /// returns `None` if neither the file nor the profile gives this number.
    fn cores(&self, check: Check<'_>, at: NodeId) -> Option<f64> {
        if self.cores.is_written() {
            return Some(self.cores.get()?.0);
        }
        let measured = check.profile.map_or(0.0, |profile| profile.host.cores);
        if measured > 0.0 {
            return Some(measured.min(Cores::MOST));
        }
        check.unsaid(at, "cores", "cores = 20", "host.cores")?;
        Some(1.0)
    }

    fn core_speed(&self, check: Check<'_>, cores: u32, scheduling: Scheduling) -> Vec<f64> {
        if let Some((at, list)) = self.core_speed.given() {
            if scheduling == Scheduling::Fifo {
                let what = "with \"fifo\" scheduling the speed of a core cannot depend on how many are busy";
                check.wrong(at, what, "remove `core_speed`, or write `scheduling = \"shared\"`");
            }
            if list.0.is_empty() {
                check.wrong(at, "the list is empty", "write `core_speed = [1.0, 0.95]`");
            }
            let given = list.0.iter().filter_map(Field::given);
            for (at, speed) in given.clone().filter(|(_, speed)| speed.0 > 1.0) {
                let what = format!("a core cannot be faster while others are busy: {}", speed.0);
                check.wrong(at, what, "write speeds of at most 1");
            }
            return given.map(|(_, speed)| speed.0).collect();
        }
        match check.profile {
            Some(profile) if !self.core_speed.is_written() && scheduling == Scheduling::Shared => {
                measured_speed(profile, cores, !self.cores.is_written())
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the measured speed of a core while 1, 2, … threads compute, interpolated linearly between the measured
/// numbers of threads. Speeds measured with more threads than cores hold for as many threads on each of `cores` cores. The result has
/// an entry for each number of threads up to `cores` if `whole`, and up to the largest measured number. It is empty if every speed is 1.
fn measured_speed(profile: &Profile, cores: u32, whole: bool) -> Vec<f64> {
    let host = match profile.host.cores {
        known if known > 0.0 => known.ceil(),
        _ => f64::INFINITY,
    };
    let here = f64::from(cores);
    let place = |threads: f64| match threads > host {
        true => Some((threads * here / host).ceil()),
        false => (threads <= here).then_some(threads),
    };
    let parameters = profile.cores.iter().flat_map(|fit| &fit.parameters);
    let known = parameters.filter_map(|(name, speed)| {
        let busy: u32 = name.strip_prefix("speed_")?.parse().ok()?;
        Some((f64::from(busy), speed.value))
    });
    let known = known.filter(|(_, speed)| *speed > 0.0);
    let mut known: Vec<(f64, f64)> =
        known.filter_map(|(threads, speed)| Some((place(threads)?, speed.min(1.0)))).collect();
    if !known.iter().any(|(busy, _)| *busy == 1.0) {
        known.push((1.0, 1.0));
    }
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Up to the number of cores here, a core is as fast as with all those busy that were measured.
    let waiting = known.partition_point(|(threads, _)| *threads <= here);
    if let (Some(&(threads, speed)), true) = (known.get(waiting - 1), waiting < known.len())
        && threads < here
    {
        known.insert(waiting, (here, speed));
    }
    // Beyond the largest measured number of threads, speeds stay the same.
    let last = known.last().map_or(1, |(busy, _)| *busy as u32).max(1);
    let entries = if whole { cores.max(last) } else { last };
    let speeds: Vec<f64> = (1..=entries).map(|busy| between(&known, busy.into())).collect();
    if speeds.iter().all(|speed| *speed == 1.0) { Vec::new() } else { speeds }
}

/// Returns the value at `x` by linear interpolation between `points`, which are in ascending order. Outside of their
/// range, returns the value of the nearest point.
fn between(points: &[(f64, f64)], x: f64) -> f64 {
    let above = points.partition_point(|(at, _)| *at < x);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some((a, from)), Some((b, to))) => from + (to - from) * (x - a) / (b - a),
        (_, Some((_, value))) | (Some((_, value)), None) => *value,
        (None, None) => 1.0,
    }
}
