//! Gradients in the order in which backward makes them, and the buckets in which they are reduced.

use super::bucketing::Framework;
use super::transport::Latencies;
use crate::check::Check;
use crate::document::NodeId;
use forebay_model::catalogue::Precision;

/// Maximum number of steps from one exchange to the next.
const MOST_APART: u64 = 1_000_000;

/// Gradients that are reduced together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Bytes that are sent [B].
    pub bytes: u64,
    /// Bytes before compression [B].
    pub raw: u64,
    /// Number of tensors in the bucket.
    pub tensors: u32,
    /// Share of a step's time after which all gradients of the bucket are ready.
    pub ready: f64,
    /// Time that a GPU needs to compress the bucket once it is ready [s].
    pub compress: f64,
}

/// Parameters that are broadcast together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Bytes that are broadcast [B].
    pub bytes: u64,
    /// Number of tensors that are broadcast together.
    pub tensors: u32,
    /// Share of a step's time that forward runs before it needs these parameters.
    pub needed: f64,
}

/// Gradients of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gradient {
    /// Bytes of the gradients [B].
    pub(crate) bytes: f64,
    /// Number of tensors.
    pub(crate) tensors: u32,
    /// Share of a step's time after which the gradients are ready.
    pub(crate) ready: f64,
    /// Share of a step's time that forward runs before it needs the layer's parameters.
    pub(crate) needed: f64,
}

impl Gradient {
    /// An empty set of gradients, with which `joined` returns the other set unchanged.
    const NONE: Gradient = Gradient { bytes: 0.0, tensors: 0, ready: 0.0, needed: f64::INFINITY };

    /// Returns both gradients as one: ready when the later one is ready, needed when the earlier one is needed.
    pub(super) fn joined(self, next: &Gradient) -> Gradient {
        Gradient {
            bytes: self.bytes + next.bytes,
            tensors: self.tensors + next.tensors,
            ready: self.ready.max(next.ready),
            needed: self.needed.min(next.needed),
        }
    }

    /// Returns the parameters that the gradients belong to.
    pub(super) fn parameters(&self) -> Parameters {
        let Gradient { bytes, tensors, needed, .. } = *self;
        Parameters { bytes: bytes.round() as u64, tensors, needed }
    }
}

/// Facts about a job's model, its steps and its cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfModel {
    /// Gradients of each layer in 32 bits, last layer first; empty if the layers are unknown.
    pub(crate) gradients: Vec<Gradient>,
    /// Bytes of all parameters in the model's precision [B]; `None` if they are not known.
    pub(crate) parameters: Option<f64>,
    /// Floating-point format in which backward makes gradients.
    pub(crate) precision: Precision,
    /// Time of a step [s].
    pub(crate) step: f64,
    /// Time that an averaging takes for each learner on a GPU, moving bytes included, by the profile [s]; `None` if unknown.
    pub(crate) averaging: Option<f64>,
    /// Whether the model is on a real GPU, on which live runs train.
    pub(crate) real_gpu: bool,
    /// Latencies of the cluster's links.
    pub(crate) latencies: Latencies,
    /// Model copies of a job copy.
    pub(crate) ranks: u32,
    /// Steps whose gradients are added up before an update.
    pub(crate) accumulation: u64,
    /// Whether gradients are reduced in each pass that makes them, because ranks keep only shards of them.
    pub(crate) shards_gradients: bool,
    /// Framework whose loader feeds the job.
    pub(crate) framework: Framework,
    /// Bandwidth of a node's NIC [B/s].
    pub(crate) nic: f64,
    /// Number of cores of a node.
    pub(crate) cores: u32,
}

impl OfModel {
    /// Returns the number of steps from one exchange to the next, for an exchange every `period` updates; reports a
    /// problem at document node `at` and returns `None` if there are too many steps.
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

/// Returns gradients of `bytes` bytes in `tensors` equal tensors, which backward makes one after the other;
/// `backward` is backward's share of a step.
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

/// Cuts gradients of `bytes` bytes, whose tensors are unknown, into a piece of `first` bytes and further pieces of
/// `rest` bytes; the last piece has the remaining bytes. Backward makes the pieces in this order; `backward` is
/// backward's share of a step.
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

/// Groups `gradients` into buckets: the first of at least `first` bytes, further ones of at least `rest` bytes, and
/// a last one of the remaining gradients. The gradient that fills a bucket closes it (PyTorch's
/// `DistributedDataParallel`).
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

/// Groups `gradients` as Horovod's tensor fusion does: every `cycle` (a share of a step's time), the gradients that
/// are ready go into buffers of at most `most` bytes. Buffers that wait for an earlier reduction may be fused
/// further during the run.
pub(super) fn fused(gradients: &[Gradient], most: f64, cycle: f64) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut open: Option<Gradient> = None;
    for gradient in gradients {
        let ready =
            if cycle > 0.0 { (gradient.ready / cycle).ceil() * cycle } else { gradient.ready };
        // Gradients from the end of backward are found at the next cycle, which may be after the end of the step.
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

/// Returns the maximum number of bytes that are reduced together if as many of `buckets` as fit into `buffer` bytes
/// may be fused [B].
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
    fn gradients_of_equal_tensors_are_ready_at_equal_intervals() {
        // System: 4 tensors of 25 B in a backward pass of half a step. Expectation: they are ready after 5/8, 6/8,
        // 7/8 and all of the step.
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
        // System: 4 tensors of 25 B in a backward pass of half a step, buckets of 40 B. Expectation: two buckets of
        // two tensors, each ready with its second tensor.
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
    fn gradients_ready_in_the_same_cycle_are_fused_up_to_the_buffer_size() {
        // System: 4 tensors of 25 B in a backward pass of half a step, cycles of a quarter of a step. Expectation:
        // the tensors that are ready at 0.625 and 0.75 of the step are reduced at 0.75, the others at 1; buffers of
        // 30 B hold one tensor each.
        let bucket =
            |bytes, tensors, ready| Bucket { bytes, raw: bytes, tensors, ready, compress: 0.0 };
        let gradients = even(100.0, 4, 0.5);
        let fused_all = fused(&gradients, 1e9, 0.25);
        assert_eq!(fused_all, [bucket(50, 2, 0.75), bucket(50, 2, 1.0)]);
        assert_eq!(fused(&gradients, 30.0, 0.25).len(), 4);
        // If a cycle ends after the step, its gradients are ready at the end of the cycle.
        assert_eq!(fused(&gradients, 1e9, 0.7), [bucket(25, 1, 0.7), bucket(75, 3, 1.4)]);
    }
}
