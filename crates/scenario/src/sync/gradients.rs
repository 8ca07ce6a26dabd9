//! Gradients in the order in which backward makes them, and the buckets that they are reduced in.

use super::bucketing::Framework;
use super::transport::Latencies;
use crate::check::Check;
use crate::document::NodeId;
use forebay_model::catalogue::Precision;

/// Most steps from one exchange to the next.
const MOST_APART: u64 = 1_000_000;

/// Gradients that are reduced together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// How many are sent [B].
    pub bytes: u64,
    /// How many there are before they are compressed [B].
    pub raw: u64,
    /// Tensors among them.
    pub tensors: u32,
    /// Share of a step's time after which they are there.
    pub ready: f64,
    /// Time of a GPU to compress them then [s].
    pub compress: f64,
}

/// Parameters that are broadcast together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// How many [B].
    pub bytes: u64,
    /// Tensors among them.
    pub tensors: u32,
    /// Share of a step's time that forward can do without them.
    pub needed: f64,
}

/// Gradients of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gradient {
    /// How many [B].
    pub(crate) bytes: f64,
    /// How many tensors.
    pub(crate) tensors: u32,
    /// Share of a step's time after which they are there.
    pub(crate) ready: f64,
    /// Share of a step's time that forward can do without the parameters that they belong to.
    pub(crate) needed: f64,
}

impl Gradient {
    /// None.
    const NONE: Gradient = Gradient { bytes: 0.0, tensors: 0, ready: 0.0, needed: f64::INFINITY };

    /// Both together.
    pub(super) fn joined(self, next: &Gradient) -> Gradient {
        Gradient {
            bytes: self.bytes + next.bytes,
            tensors: self.tensors + next.tensors,
            ready: self.ready.max(next.ready),
            needed: self.needed.min(next.needed),
        }
    }

    /// The parameters that they belong to.
    pub(super) fn parameters(&self) -> Parameters {
        let Gradient { bytes, tensors, needed, .. } = *self;
        Parameters { bytes: bytes.round() as u64, tensors, needed }
    }
}

/// What is known of the model whose gradients they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfModel {
    /// Of its layers in 32 bits, last layer first; empty if that is not known.
    pub(crate) gradients: Vec<Gradient>,
    /// In which floats they are made.
    pub(crate) precision: Precision,
    /// Time of a step [s].
    pub(crate) step: f64,
    /// Of the cluster.
    pub(crate) latencies: Latencies,
    /// Model copies of a job copy.
    pub(crate) ranks: u32,
    /// Steps whose gradients are added up before an update.
    pub(crate) accumulation: u64,
    /// Whose loader feeds the job.
    pub(crate) framework: Framework,
    /// Bandwidth of a node's NIC [B/s], and its cores.
    pub(crate) nic: f64,
    pub(crate) cores: u32,
}

impl OfModel {
    /// Steps from one exchange to the next, of `period` updates; `None` where that is too long, as is said of node
    /// `at`.
    pub(super) fn interval(&self, check: Check<'_>, at: NodeId, period: u64) -> Option<u64> {
        let steps = self.accumulation.saturating_mul(period);
        if steps > MOST_APART {
            let what = format!("{steps} steps lie between two exchanges");
            let remedy = format!(
                "write a smaller `period` or `accumulation`: at most {MOST_APART} steps in all"
            );
            check.wrong(at, what, remedy);
            return None;
        }
        Some(steps)
    }
}

/// Gradients of `bytes` in `tensors` equal tensors that a backward pass, the share `backward` of a step, makes
/// one after the other.
pub(super) fn even(bytes: f64, tensors: u32, backward: f64) -> Vec<Gradient> {
    let number = f64::from(tensors);
    let of = |place: u32| Gradient {
        bytes: bytes / number,
        tensors: 1,
        ready: 1.0 - backward * (1.0 - f64::from(place + 1) / number),
        needed: (1.0 - backward) * (1.0 - f64::from(place + 1) / number),
    };
    (0..tensors).map(of).collect()
}

/// Gradients of `bytes` of which no tensors are known, cut into pieces of `first` and `rest` bytes, but for the last, as
/// a backward pass, the share `backward` of a step, makes them.
pub(super) fn cut(bytes: f64, (first, rest): (f64, f64), backward: f64) -> Vec<Gradient> {
    let (mut pieces, mut done) = (Vec::new(), 0.0);
    while done < bytes {
        let size = f64::min(if pieces.is_empty() { first } else { rest }, bytes - done);
        done = if size < bytes - done { done + size } else { bytes };
        let left = 1.0 - done / bytes;
        let (ready, needed) = (1.0 - backward * left, (1.0 - backward) * left);
        pieces.push(Gradient { bytes: size, tensors: 1, ready, needed });
    }
    pieces
}

/// Buckets of at least `first` and then `rest` bytes, but for the last: each is closed by the gradient that fills it
/// (PyTorch's `DistributedDataParallel`).
pub(super) fn filled(gradients: &[Gradient], first: f64, rest: f64) -> Vec<Bucket> {
    let mut buckets = Vec::new();
    let mut open = Gradient::NONE;
    for gradient in gradients {
        open = open.joined(gradient);
        if open.bytes >= if buckets.is_empty() { first } else { rest } {
            buckets.push(closed(open));
            open = Gradient::NONE;
        }
    }
    if open.tensors > 0 {
        buckets.push(closed(open));
    }
    buckets
}

/// Every `cycle` of a step's time, what is there, in buffers of at most `most` bytes (Horovod's tensor fusion);
/// while those before are reduced, more of them come together.
pub(super) fn fused(gradients: &[Gradient], most: f64, cycle: f64) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut open: Option<Gradient> = None;
    for gradient in gradients {
        let ready =
            if cycle > 0.0 { (gradient.ready / cycle).ceil() * cycle } else { gradient.ready };
        // The end of backward is looked at when the next cycle comes, which may be after it.
        let gradient = Gradient { ready: ready.max(gradient.ready), ..*gradient };
        let fits =
            |open: &Gradient| open.ready == gradient.ready && open.bytes + gradient.bytes <= most;
        open = Some(match open.filter(fits) {
            Some(open) => open.joined(&gradient),
            None => {
                buckets.extend(open.map(closed));
                gradient
            }
        });
    }
    buckets.extend(open.map(closed));
    buckets
}

/// Most of these buckets that is reduced together, where as many as fit into `buffer` may be [B].
pub(super) fn most_together(buckets: &[Bucket], buffer: u64) -> u64 {
    let sum = buckets.iter().fold(0, |sum: u64, bucket| sum.saturating_add(bucket.bytes));
    let largest = buckets.iter().map(|bucket| bucket.bytes).max().unwrap_or(0);
    sum.min(buffer).max(largest)
}

fn closed(open: Gradient) -> Bucket {
    let Gradient { bytes, tensors, ready, .. } = open;
    Bucket { bytes: bytes.round() as u64, raw: bytes.round() as u64, tensors, ready, compress: 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backward_makes_gradients_evenly() {
        // System: 4 tensors of 25 B in a backward pass of half a step. Expectation: after 5/8, 6/8, 7/8 and 1.
        let gradients = even(100.0, 4, 0.5);
        let ready: Vec<f64> = gradients.iter().map(|gradient| gradient.ready).collect();
        assert_eq!(ready, [0.625, 0.75, 0.875, 1.0]);
        // Forward takes the other half, and needs the last tensor's parameters first.
        let needed: Vec<f64> = gradients.iter().map(|gradient| gradient.needed).collect();
        assert_eq!(needed, [0.375, 0.25, 0.125, 0.0]);
        assert_eq!(gradients.iter().map(|gradient| gradient.bytes).sum::<f64>(), 100.0);
    }

    #[test]
    fn a_bucket_is_closed_by_the_gradient_that_fills_it() {
        // System: the same, buckets of 40 B. Expectation: two of two tensors, each there with its second.
        let bucket =
            |bytes, tensors, ready| Bucket { bytes, raw: bytes, tensors, ready, compress: 0.0 };
        let gradients = even(100.0, 4, 0.5);
        assert_eq!(filled(&gradients, 40.0, 40.0), [bucket(50, 2, 0.75), bucket(50, 2, 1.0)]);
        assert_eq!(filled(&gradients, 60.0, 60.0), [bucket(75, 3, 0.875), bucket(25, 1, 1.0)]);
        assert_eq!(filled(&gradients, f64::INFINITY, f64::INFINITY), [bucket(100, 4, 1.0)]);
        assert_eq!(filled(&gradients, 0.0, 0.0).len(), 4);
        assert_eq!(filled(&gradients, 20.0, 60.0), [bucket(25, 1, 0.625), bucket(75, 3, 1.0)]);
    }

    #[test]
    fn what_is_there_in_a_cycle_is_fused_up_to_the_buffer() {
        // System: the same, cycles of a quarter of a step. Expectation: 0.625 and 0.75 at 0.75, the others at
        // 1; buffers of 30 B hold one tensor each.
        let bucket =
            |bytes, tensors, ready| Bucket { bytes, raw: bytes, tensors, ready, compress: 0.0 };
        let gradients = even(100.0, 4, 0.5);
        let fused_all = fused(&gradients, 1e9, 0.25);
        assert_eq!(fused_all, [bucket(50, 2, 0.75), bucket(50, 2, 1.0)]);
        assert_eq!(fused(&gradients, 30.0, 0.25).len(), 4);
        // A cycle that ends after the step: then.
        assert_eq!(fused(&gradients, 1e9, 0.7), [bucket(25, 1, 0.7), bucket(75, 3, 1.4)]);
    }
}
