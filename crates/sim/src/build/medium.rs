//! What a storage's kind says, in one shape, and the core-seconds that are part of its times.

use std::sync::Arc;

use forebay_model::law::Throughput;
use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{Distribution, ReadCpu, RequestLimit, StorageKind, Targets};

/// Nothing that limits bytes.
const UNLIMITED: &Bandwidth = &Bandwidth::Fixed(f64::INFINITY);

/// What a storage's kind says.
pub(super) struct Medium<'s> {
    pub(super) bandwidth: &'s Bandwidth,
    /// Fastest that one transfer goes [B/s].
    pub(super) per_stream: f64,
    /// Time to the first byte [s]; `None`: none.
    pub(super) latency: Option<&'s Distribution>,
    /// Open operations per second.
    pub(super) operations: f64,
    /// Whether it is reached over the network.
    pub(super) remote: bool,
    /// What files are striped over, if they are.
    pub(super) targets: Option<Targets>,
    /// Requests that are served.
    pub(super) limit: Option<RequestLimit>,
    /// What was measured of it; then nothing else is known.
    pub(super) table: Option<&'s Arc<Throughput>>,
    /// Time to move its arm [s], and how fast bytes come then [B/s], where it has one.
    pub(super) arm: Option<(f64, f64)>,
    cpu: ReadCpu,
}

/// What is left of a storage's times when a request's core-seconds are taken out of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    /// To be added to the latency [s].
    pub(super) latency: f64,
    /// Core-seconds apart from the bytes' way.
    pub(super) cpu: ReadCpu,
    /// What keeps a core busy while bytes are on their way, if anything does.
    pub(super) coupled: Option<Coupled>,
}

/// Bytes that are on their way and use a core at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coupled {
    /// Core-seconds per byte.
    pub(super) cpu: f64,
    /// Time per byte of a request that is alone [s/B].
    pub(super) alone: f64,
}

impl<'s> Medium<'s> {
    /// What `kind` says.
    pub(super) fn of(kind: &'s StorageKind) -> Medium<'s> {
        match kind {
            StorageKind::Memory { bandwidth } => Medium {
                bandwidth,
                per_stream: f64::INFINITY,
                latency: None,
                operations: f64::INFINITY,
                remote: false,
                targets: None,
                limit: None,
                table: None,
                arm: None,
                cpu: ReadCpu::default(),
            },
            StorageKind::Measured { table, remote } => Medium {
                bandwidth: UNLIMITED,
                per_stream: f64::INFINITY,
                latency: None,
                operations: f64::INFINITY,
                remote: *remote,
                targets: None,
                limit: None,
                table: Some(table),
                arm: None,
                cpu: ReadCpu::default(),
            },
            StorageKind::LocalDisk {
                bandwidth,
                per_stream,
                latency,
                operations,
                cpu,
                seek,
                ..
            } => {
                let alone = alone(bandwidth).min(*per_stream);
                Medium {
                    bandwidth: if seek.is_some() { UNLIMITED } else { bandwidth },
                    per_stream: if seek.is_some() { f64::INFINITY } else { *per_stream },
                    latency: Some(latency),
                    operations: *operations,
                    remote: false,
                    targets: None,
                    limit: None,
                    table: None,
                    arm: seek.map(|seek| (seek, alone)),
                    cpu: *cpu,
                }
            }
            StorageKind::FileServer {
                bandwidth,
                per_stream,
                latency,
                operations,
                cpu,
                targets,
                limit,
                objects: _,
            } => Medium {
                bandwidth,
                per_stream: *per_stream,
                latency: Some(latency),
                operations: *operations,
                remote: true,
                targets: *targets,
                limit: *limit,
                table: None,
                arm: None,
                cpu: *cpu,
            },
        }
    }
}

/// Bandwidth of a transfer that has the storage to itself [B/s].
fn alone(bandwidth: &Bandwidth) -> f64 {
    match bandwidth {
        Bandwidth::Fixed(rate) => *rate,
        Bandwidth::ByTransfers(table) => table.first().copied().unwrap_or(f64::INFINITY),
    }
}

impl Medium<'_> {
    /// Takes a request's core-seconds, which are part of its time, out of latency and time per byte.
    /// Where one of the two is all core-seconds and more, the other makes up for that in requests of
    /// `size`. Bytes whose way cannot be as fast as what would be left of it keep a core busy while
    /// they are on it, if that is mostly a core's work or the latency cannot make up for it.
    pub(super) fn take_cpu(&mut self, size: f64) -> Rest {
        let cpu = self.cpu;
        if cpu == ReadCpu::default() {
            return Rest::default();
        }
        let latency = self.latency.map_or(0.0, Distribution::mean);
        let (mut fixed, mut per_byte) = (latency - cpu.fixed, 1.0 / self.per_stream);
        if fixed < 0.0 {
            per_byte += fixed / size;
            fixed = 0.0;
        }
        let least = 1.0 / self.most();
        // What a core's part of the time per byte cannot be taken out of.
        let (alone, missing) = (per_byte.max(least), least - (per_byte.max(least) - cpu.per_byte));
        let mostly = cpu.per_byte > alone.max(least) / 2.0 || missing * size > fixed;
        if mostly && cpu.per_byte > 0.0 && missing > 0.0 {
            let coupled = Some(self.couple(per_byte, least));
            let cpu = ReadCpu { per_byte: 0.0, ..cpu };
            return Rest { latency: fixed - latency, cpu, coupled };
        }
        if missing > 0.0 {
            fixed -= missing * size;
        }
        fixed += self.keep_apart(per_byte) * size;
        Rest { latency: fixed.max(0.0) - latency, cpu, coupled: None }
    }

    /// Bytes keep a core busy while they are on their way, which takes `per_byte` without that and
    /// at least `least` [s/B].
    fn couple(&mut self, per_byte: f64, least: f64) -> Coupled {
        let alone = per_byte.max(self.cpu.per_byte);
        self.per_stream = 1.0 / alone;
        Coupled { cpu: self.cpu.per_byte, alone: alone.max(least) }
    }

    /// A core's part of `per_byte` [s/B] comes when the bytes are there; the time per byte, at most 0,
    /// by which it is more than all of that.
    fn keep_apart(&mut self, per_byte: f64) -> f64 {
        let per_byte = per_byte - self.cpu.per_byte;
        // No time per byte at all is a stream without cap.
        self.per_stream = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
        per_byte.min(0.0)
    }

    /// Fastest that all transfers go together [B/s].
    pub(super) fn most(&self) -> f64 {
        match self.bandwidth {
            Bandwidth::Fixed(rate) => *rate,
            Bandwidth::ByTransfers(table) => table.iter().copied().fold(0.0, f64::max),
        }
    }
}
