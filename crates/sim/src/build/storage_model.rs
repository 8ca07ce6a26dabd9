//! A storage's request path for one client, without the core-seconds that the path's measured times include.

use forebay_scenario::storage::Bandwidth;
use forebay_scenario::{ReadCpu, RequestPath};

/// A bandwidth that does not limit transfers.
const UNLIMITED: &Bandwidth = &Bandwidth::Fixed(f64::INFINITY);

/// A storage's request path, from which the components for one client are built.
pub(super) struct StorageModel<'s> {
    pub(super) path: &'s RequestPath,
    /// Maximum throughput of a single transfer over links [B/s].
    pub(super) per_stream: f64,
    /// Whether the storage is reached over the network.
    pub(super) remote: bool,
}

/// The result of taking a request's core-seconds out of a storage's times: a correction of the latency, and the way in which
/// the core-seconds are spent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    /// Correction of the latency [s]; may be negative.
    pub(super) latency: f64,
    /// Core-seconds that are spent apart from the transfer.
    pub(super) cpu: ReadCpu,
    /// Core use during the transfer of bytes, if the transfer keeps a core busy.
    pub(super) coupled: Option<Coupled>,
}

/// Use of a core during the transfer of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coupled {
    /// Core-seconds for each byte [s/B].
    pub(super) cpu: f64,
    /// Time per byte of a request that has the storage to itself [s/B].
    pub(super) alone: f64,
}

impl<'s> StorageModel<'s> {
    /// Returns the model of a storage with this request path.
    pub(super) fn new(path: &'s RequestPath) -> StorageModel<'s> {
        let on_links = path.seek().is_none();
        StorageModel {
            path,
            per_stream: if on_links { path.per_stream } else { f64::INFINITY },
            remote: path.is_remote(),
        }
    }

    /// Returns the bandwidth of the link that all transfers share [B/s].
    pub(super) fn bandwidth(&self) -> &'s Bandwidth {
        if self.path.seek().is_some() { UNLIMITED } else { &self.path.bandwidth }
    }

    /// Returns a disk head's seek time [s] and the throughput after the seek [B/s]; `None` if the storage is not modelled with
    /// a disk head.
    pub(super) fn disk_head(&self) -> Option<(f64, f64)> {
        let alone = self.path.bandwidth.alone().min(self.path.per_stream);
        self.path.seek().map(|seek| (seek, alone))
    }
}

impl StorageModel<'_> {
    /// Takes a request's core-seconds, which its measured time includes, out of the latency and the time per byte. If the
    /// core-seconds exceed one of these two, the other one is reduced instead, for requests of `size` bytes.
    ///
    /// Links may be so slow that the time per byte cannot be reduced by the whole core time per byte. Then the latency is
    /// reduced by the missing part. But if the latency is too short for that, or if the core time is more than half of the time
    /// per byte, the transfer keeps a core busy while it lasts instead.
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
        // `missing` is the part of a core's time per byte that cannot be taken out of the transfer time, because the links are
        // too slow for that.
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

    /// Lets a transfer keep a core busy while it lasts. A transfer that is alone takes `per_byte` by its measured time, and at
    /// least `least` over the links [s/B].
    fn couple(&mut self, per_byte: f64, least: f64) -> Coupled {
        let alone = per_byte.max(self.path.cpu.per_byte);
        self.per_stream = 1.0 / alone;
        Coupled { cpu: self.path.cpu.per_byte, alone: alone.max(least) }
    }

    /// Takes the core time per byte out of `per_byte` [s/B], since the core works after the bytes have arrived. Returns the
    /// excess as a negative number if the core time per byte is larger than `per_byte`, otherwise 0.
    fn keep_apart(&mut self, per_byte: f64) -> f64 {
        let per_byte = per_byte - self.path.cpu.per_byte;
        // With no time left per byte, a stream has no cap.
        self.per_stream = if per_byte > 0.0 { 1.0 / per_byte } else { f64::INFINITY };
        per_byte.min(0.0)
    }

    /// Returns the maximum throughput of all transfers together [B/s].
    pub(super) fn most(&self) -> f64 {
        self.bandwidth().most()
    }
}
