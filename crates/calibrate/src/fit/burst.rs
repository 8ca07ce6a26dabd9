//! Fits the token bucket of a storage, from the throughput of reads that go on without a pause, then rest, then go on.

use super::bootstrap;
use super::cell::median;
use super::estimate::rounded;
use super::others::plain;
use crate::measurement::Sample;
use forebay_scenario::profile::Fit;

/// Smallest number of trials before and after the fall of the throughput.
const FEWEST: [usize; 2] = [2, 5];
/// Largest share of the throughput before that counts as fallen.
const FALLEN: f64 = 0.8;
/// Largest relative scatter of the throughput within either part, as a share of the fall. Throughput that wanders is no bucket.
const SCATTER: f64 = 0.25;

/// A trial, with its time.
#[derive(Debug, Clone, Copy)]
struct Read {
    /// Begin and end [s].
    from: f64,
    to: f64,
    /// Throughput [B/s].
    rate: f64,
    /// Whether the probe let the storage rest before.
    rested: bool,
}

impl Read {
    fn new(sample: &Sample) -> Option<Read> {
        let size = sample.settings.get("size")?;
        let length = sample.observed.get("length").copied().unwrap_or(sample.seconds);
        let rested = sample.observed.get("rested").is_some_and(|rest| *rest > 0.0);
        let rate = size / sample.seconds_each();
        rate.is_finite().then_some(Read { from: sample.at - length, to: sample.at, rate, rested })
    }
}

/// Reads from a rested storage until its throughput has fallen and after.
#[derive(Debug)]
struct Drain<'r> {
    before: &'r [Read],
    after: &'r [Read],
}

impl<'r> Drain<'r> {
    /// Returns the reads, divided where the throughput falls once, by least squares of its logarithm; `None` if it does not fall.
    fn new(reads: &'r [Read]) -> Option<Drain<'r>> {
        let logs: Vec<f64> = reads.iter().map(|read| read.rate.ln()).collect();
        let squares = |part: &[f64]| {
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            part.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
        };
        let places = FEWEST[0]..(reads.len() + 1).saturating_sub(FEWEST[1]);
        let apart = |at: &usize| squares(&logs[..*at]) + squares(&logs[*at..]);
        let at = places.min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        let drain = Drain { before: &reads[..at], after: &reads[at..] };
        let [high, low] = [rate(drain.before), rate(drain.after)];
        let scatter = |part: &[Read], rate: f64| {
            median(&mut part.iter().map(|read| (read.rate / rate - 1.0).abs()).collect::<Vec<_>>())
        };
        let fall = 1.0 - low / high;
        let is_clear = scatter(drain.before, high).max(scatter(drain.after, low)) < SCATTER * fall;
        (low < FALLEN * high && is_clear).then_some(drain)
    }

    /// Returns the bytes read beyond the sustained bandwidth until the bucket is empty [B].
    fn content(&self) -> f64 {
        // The bucket may run empty during the first slow read.
        let reads: Vec<Read> = self.before.iter().chain(self.after.first()).copied().collect();
        let since = reads.first().map_or(0.0, |read| read.from);
        beyond(&reads, rate(self.after), since)
    }
}

/// Returns the bytes read beyond a bandwidth of `sustained`, from `since` to the end of the reads [B].
fn beyond(reads: &[Read], sustained: f64, since: f64) -> f64 {
    let bytes: f64 = reads.iter().map(|read| read.rate * (read.to - read.from)).sum();
    bytes - sustained * (reads.last().map_or(since, |read| read.to) - since)
}

/// Returns the median throughput.
fn rate(reads: &[Read]) -> f64 {
    median(&mut reads.iter().map(|read| read.rate).collect::<Vec<_>>())
}

/// Fits the bandwidth before and after the bucket is empty, its size and its refill; `None` if throughput does not fall. The bucket is
/// at least this large: it need not have been full at the beginning.
pub(super) fn burst(samples: &[&Sample], draws: usize) -> Option<Fit> {
    let mut reads: Vec<Read> = samples.iter().filter_map(|sample| Read::new(sample)).collect();
    reads.sort_by(|a, b| a.to.total_cmp(&b.to));
    let rest = reads.iter().position(|read| read.rested).unwrap_or(reads.len());
    let (first, again) = reads.split_at(rest);
    let value = parameters(first, again)?;
    // Each draw moves every throughput by the scatter of one of its own part.
    let drain = Drain::new(first)?;
    // The bucket may run empty during the first slow read, which is between both bandwidths.
    let off: Vec<f64> = [drain.before, &drain.after[1..]]
        .iter()
        .flat_map(|part| part.iter().map(|read| read.rate / rate(part) - 1.0))
        .collect();
    let number = value.len();
    let drawn: Vec<Vec<f64>> = bootstrap::moved(&off, reads.len(), draws)
        .iter()
        .filter_map(|moves| {
            let moved = |(read, by): (&Read, &f64)| Read { rate: read.rate * (1.0 + by), ..*read };
            let moved: Vec<Read> = reads.iter().zip(moves).map(moved).collect();
            parameters(&moved[..rest], &moved[rest..]).filter(|found| found.len() == number)
        })
        .collect();
    let names = ["bandwidth", "bucket", "sustained", "refill"].map(str::to_owned);
    let mut fit = plain(&names[..number], "B/s", &value, &drawn);
    if let Some(bucket) = fit.parameters.get_mut("bucket") {
        bucket.unit = "B".to_owned();
    }
    fit.samples = reads.len() as u64;
    fit.residual = rounded(median(&mut off.iter().map(|off| off.abs()).collect::<Vec<_>>()));
    Some(fit)
}

/// Returns the bandwidth before [B/s], the size of the bucket [B], the sustained bandwidth [B/s] and, if the reads after the rest tell,
/// the refill [B/s].
fn parameters(first: &[Read], again: &[Read]) -> Option<Vec<f64>> {
    let drain = Drain::new(first)?;
    let (high, low) = (rate(drain.before), rate(drain.after));
    let mut found = vec![high, drain.content(), low];
    if let (Some(last), [begin, ..]) = (first.last(), again)
        && is_drained(again, low)
    {
        let rest = begin.from - last.to;
        found.push((low + beyond(again, low, last.to) / rest).max(0.0));
    }
    Some(found)
}

/// Returns whether the last reads are as slow as those from an empty bucket.
fn is_drained(reads: &[Read], low: f64) -> bool {
    let ends = reads.len().checked_sub(FEWEST[1]).map(|at| &reads[at..]);
    ends.is_some_and(|ends| (rate(ends) / low - 1.0).abs() < SCATTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of 0.25 s each from a bucket, with a rest.
    fn samples(bucket: f64, rest: f64) -> Vec<Sample> {
        const HIGH: f64 = 4e8;
        const LOW: f64 = 1e8;
        let (mut at, mut content, mut all) = (0.0, bucket, Vec::new());
        let noise = |n: usize| 1.0 + 0.02 * ((n * 7919 % 100) as f64 / 50.0 - 1.0);
        for index in 0..60 {
            let rested = if index == 40 { rest } else { 0.0 };
            content = (content + rested * LOW).min(bucket);
            at += rested;
            // The part of the read in which the bucket has content.
            let full = (content / (HIGH - LOW)).min(0.25);
            content -= full * (HIGH - LOW);
            let bytes = (full * HIGH + (0.25 - full) * LOW) * noise(index);
            at += 0.25;
            all.push(Sample {
                probe: "burst".to_owned(),
                labels: [("access".to_owned(), "direct".to_owned())].into(),
                settings: [("size".to_owned(), 1e6)].into(),
                trial: index as u32,
                operations: 1,
                seconds: 0.25 * 1e6 / bytes,
                core_seconds: 0.0,
                observed: [("rested".to_owned(), rested), ("length".to_owned(), 0.25)].into(),
                beside: None,
                excluded: None,
                at,
            });
        }
        all
    }

    fn fitted(samples: &[Sample]) -> Option<Fit> {
        burst(&samples.iter().collect::<Vec<_>>(), 200)
    }

    #[test]
    fn bandwidths_size_and_refill_of_a_bucket_are_found_with_intervals_that_hold_them() {
        // System: 400 MB/s until a bucket of 0.9, 1.5 or 2 GB is empty, then 100 MB/s; a rest of 4 s. Expectation: both bandwidths
        // within 3 %, the bucket within 15 % and the refill within 20 %, and intervals that are no wider.
        for bucket in [0.9e9, 1.5e9, 2e9] {
            let fit = fitted(&samples(bucket, 4.0)).expect("a bucket");
            let expected = [
                ("bandwidth", 4e8, 0.03),
                ("sustained", 1e8, 0.03),
                ("bucket", bucket, 0.15),
                ("refill", 1e8, 0.2),
            ];
            for (name, value, within) in expected {
                let found = &fit.parameters[name];
                assert!((found.value / value - 1.0).abs() < within, "{name}: {found:?}");
                let [low, high] = found.ci95.expect("an interval");
                assert!((high - low) / 2.0 < within * value, "{name}: {found:?}");
            }
        }
    }

    #[test]
    fn throughput_that_never_falls_or_wanders_is_no_bucket() {
        assert_eq!(fitted(&samples(1e12, 4.0)), None);
        let mut wandering = samples(1e12, 0.0);
        for (index, sample) in wandering.iter_mut().enumerate() {
            sample.seconds *= if (index * 7919) % 10 < 5 { 1.0 } else { 1.6 };
        }
        assert_eq!(fitted(&wandering), None);
        assert_eq!(fitted(&[]), None);
    }

    #[test]
    fn without_a_rest_nothing_is_said_of_the_refill() {
        let fit = fitted(&samples(1e9, 0.0)).expect("a bucket");
        assert_eq!(fit.value("refill"), None);
        assert_eq!(fit.parameters["bucket"].unit, "B");
    }
}
