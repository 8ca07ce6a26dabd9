//! A storage's request path as one client sees it, and the core-seconds that are part of its times.

use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{ReadCpu, RequestPath};

/// Nothing that limits bytes.
const UNLIMITED: &Bandwidth = &Bandwidth::Fixed(f64::INFINITY);

/// A storage's request path as it is built for one client.
pub(super) struct StorageModel<'s> {
    pub(super) path: &'s RequestPath,
    /// Fastest that one transfer goes over links [B/s].
    pub(super) per_stream: f64,
    /// Whether it is reached over the network.
    pub(super) remote: bool,
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

impl<'s> StorageModel<'s> {
    /// Of requests that take this path.
    pub(super) fn new(path: &'s RequestPath) -> StorageModel<'s> {
        let on_links = path.seek().is_none();
        StorageModel {
            path,
            per_stream: if on_links { path.per_stream } else { f64::INFINITY },
            remote: path.is_remote(),
        }
    }

    /// Bandwidth of the link that all transfers share.
    pub(super) fn bandwidth(&self) -> &'s Bandwidth {
        if self.path.seek().is_some() { UNLIMITED } else { &self.path.bandwidth }
    }

    /// Seek time of a disk's head [s], and how fast bytes come then [B/s], where it has one.
    pub(super) fn disk_head(&self) -> Option<(f64, f64)> {
        let alone = self.path.bandwidth.alone().min(self.path.per_stream);
        self.path.seek().map(|seek| (seek, alone))
    }
}

impl StorageModel<'_> {
    /// Takes a request's core-seconds, which are part of its time, out of latency and time per byte.
    /// Where one of the two is all core-seconds and more, the other makes up for that in requests of
    /// `size`. Bytes whose way cannot be as fast as what would be left of it keep a core busy while
    /// they are on it, if that is mostly a core's work or the latency cannot make up for it.
    pub(super) fn take_cpu(&mut self, size: f64) -> Rest {
        let cpu = self.path.cpu;
        if cpu == ReadCpu::default() {
            return Rest::default();
        }
        let latency = self.path.latency.mean();
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
        let alone = per_byte.max(self.path.cpu.per_byte);
        self.per_stream = 1.0 / alone;
        Coupled { cpu: self.path.cpu.per_byte, alone: alone.max(least) }
    }

    /// A core's part of `per_byte` [s/B] comes when the bytes are there; the time per byte, at most 0,
    /// by which it is more than all of that.
    fn keep_apart(&mut self, per_byte: f64) -> f64 {
        let per_byte = per_byte - self.path.cpu.per_byte;
        // No time per byte at all is a stream without cap.
        self.per_stream = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
        per_byte.min(0.0)
    }

    /// Fastest that all transfers go together [B/s].
    pub(super) fn most(&self) -> f64 {
        self.bandwidth().most()
    }
}
