//! Steps and waits of a trace, extracted from its events one by one, since traces may be larger than memory.

use super::event::{Event, Scalar};
use super::{Trace, TracedStep};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Limit for the number of steps and waits; each takes about 40 bytes of memory.
const MOST_SPANS: usize = 10_000_000;
/// Number of operators whose start is kept, to recognise steps that were cut off; 16 bytes each.
const MOST_OPERATORS: usize = 2_000_000;
/// Limit for the number of threads.
const MOST_THREADS: usize = 1_000_000;
/// Prefix of the names of steps.
const STEP: &str = "ProfilerStep#";
/// Prefix of the names of waits.
const WAIT: &str = "enumerate(DataLoader)#";
/// Categories of operators: since PyTorch 1.11, and before.
const OPERATORS: [&str; 2] = ["cpu_op", "Operator"];
/// Largest plausible time of an event, 95 years in either direction [us].
const GREATEST: f64 = 1e15 * 3.0;

/// A span of one thread; times in microseconds [us].
#[derive(Debug, Clone, Copy)]
struct Span {
    number: u64,
    /// Index of the thread of a process.
    thread: usize,
    start: f64,
    end: f64,
}

#[derive(Default)]
pub(super) struct Spans {
    pub(super) events: usize,
    /// Events without a usable time.
    bad: usize,
    steps: Vec<Span>,
    waits: Vec<Span>,
    /// Thread and start of operators.
    operators: Vec<(usize, f64)>,
    operators_of: BTreeMap<usize, u64>,
    threads: BTreeMap<[String; 2], usize>,
}

impl Spans {
    pub(super) fn waits(&self) -> usize {
        self.waits.len()
    }

    fn take(&mut self, event: &Event) {
        self.events += 1;
        match event.kind.as_ref().and_then(Scalar::text) {
            Some("X") => {}
            // Events of other kinds have no duration.
            Some(_) => return,
            None => return self.bad += 1,
        }
        let time = |of: &Option<Scalar>| {
            of.as_ref().and_then(Scalar::number).filter(|time| time.abs() <= GREATEST)
        };
        let (Some(start), Some(duration)) = (time(&event.start), time(&event.duration)) else {
            self.bad += 1;
            return;
        };
        let Some(name) = event.name.as_ref().and_then(Scalar::text) else { return };
        let category = event.category.as_ref().and_then(Scalar::text);
        let step = name.strip_prefix(STEP).and_then(|number| number.parse().ok());
        if step.is_none()
            && !name.starts_with(WAIT)
            && !OPERATORS.iter().any(|name| category == Some(*name))
        {
            return;
        }
        let thread = self.thread(event);
        let span = Span { number: 0, thread, start, end: start + duration.max(0.0) };
        if let Some(number) = step {
            // The annotations of the GPU repeat each step.
            if category != Some("gpu_user_annotation") {
                self.steps.push(Span { number, ..span });
            }
        } else if name.starts_with(WAIT) {
            self.waits.push(span);
        } else {
            *self.operators_of.entry(thread).or_default() += 1;
            if self.operators.len() < MOST_OPERATORS {
                self.operators.push((thread, start));
            }
        }
    }

    /// Returns the index of an event's thread. Threads of different processes differ even if their numbers are equal, as in traces
    /// that were merged from several ranks.
    fn thread(&mut self, event: &Event) -> usize {
        let name = |of: &Option<Scalar>| match of {
            Some(Scalar::Number(number)) => number.to_string(),
            Some(Scalar::Text(text)) => text.clone(),
            Some(Scalar::Other) | None => String::new(),
        };
        let key = [name(&event.process), name(&event.thread)];
        let next = self.threads.len().min(MOST_THREADS);
        match self.threads.get(&key) {
            Some(known) => *known,
            None => {
                if next < MOST_THREADS {
                    self.threads.insert(key, next);
                }
                next
            }
        }
    }

    /// Makes steps from waits: each step is the time from the start of one wait to the start of the next wait in the same thread.
    fn between_waits(&mut self) {
        let pairs = self.waits.windows(2).filter(|pair| pair[0].thread == pair[1].thread);
        let steps =
            pairs.zip(0..).map(|(pair, number)| Span { number, end: pair[1].start, ..pair[0] });
        self.steps = steps.collect();
    }

    /// Returns the steps of each rank, with the time that their thread waited for the loader.
    pub(super) fn trace(mut self) -> Trace {
        let order = |a: &Span, b: &Span| a.thread.cmp(&b.thread).then(a.start.total_cmp(&b.start));
        self.waits.sort_by(order);
        let annotated = !self.steps.is_empty();
        if !annotated {
            self.between_waits();
        }
        self.steps.sort_by(order);
        self.operators.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut trace = Trace::default();
        let mut cut = 0;
        let ranks: Vec<&[Span]> = self.steps.chunk_by(|a, b| a.thread == b.thread).collect();
        for steps in &ranks {
            let whole = if annotated { self.whole(steps) } else { steps };
            cut += steps.len() - whole.len();
            trace.ranks.push(whole.iter().map(|step| self.attributed(step)).collect());
        }
        trace.unknown = self.unknown(&ranks, annotated);
        if !annotated && !ranks.is_empty() {
            trace.notes.push(
                "the trace has no `ProfilerStep#` spans: steps are counted from wait to wait for the DataLoader, also across the \
                 ends of epochs"
                    .to_owned(),
            );
        }
        if cut > 0 {
            let what = if cut == 1 { "the last step was" } else { "the last steps of ranks were" };
            trace.notes.push(format!("{what} cut off when the trace ended, and not counted"));
        }
        if self.bad > 0 {
            let (bad, all) = (self.bad, self.events);
            trace.notes.push(format!("{bad} of {all} events have no usable time and are left out"));
        }
        trace
    }

    /// Returns the steps without the last, if the trace ended before it: if it is shorter than half of the median, and has less
    /// than half of the operators.
    fn whole<'s>(&self, steps: &'s [Span]) -> &'s [Span] {
        let [before @ .., last] = steps else { return steps };
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(0.0)
        };
        let length = |step: &Span| step.end - step.start;
        let short = length(last) < 0.5 * median(before.iter().map(length).collect());
        let operators = |step: &Span| {
            let from = |time| {
                let before = |of: &(usize, f64)| (of.0, of.1) < (step.thread, time);
                self.operators.partition_point(before)
            };
            (from(step.end) - from(step.start)) as f64
        };
        let usual = median(before.iter().map(operators).collect());
        let idle = usual == 0.0 || operators(last) < 0.5 * usual;
        if short && idle { before } else { steps }
    }

    /// Returns why a trace does not show how long the training loop waits for its loader; `None` if it does. Where the profiler has
    /// marked the steps (`annotated`), their thread is that of the training loop.
    fn unknown(&self, ranks: &[&[Span]], annotated: bool) -> Option<&'static str> {
        if self.waits.is_empty() {
            return Some("the trace has no DataLoader spans");
        }
        if ranks.iter().any(|steps| steps.windows(2).any(|pair| overlap(&pair[0], &pair[1]))) {
            return Some(
                "steps of one thread overlap: several ranks have equal thread numbers; import the trace of each alone",
            );
        }
        let waits = |steps: &&[Span]| {
            let from = self.waits.partition_point(|wait| wait.thread < steps[0].thread);
            self.waits.get(from).is_some_and(|wait| wait.thread == steps[0].thread)
        };
        // A thread that calls the model has most of the operators.
        let prefetches = |steps: &&[Span]| {
            let most = self.operators_of.values().max().copied().unwrap_or(0);
            let own = self.operators_of.get(&steps[0].thread).copied().unwrap_or(0);
            !annotated && 2 * own < most && ranks.len() == 1
        };
        match ranks {
            _ if !ranks.iter().all(waits) => Some(
                "another thread than the loop's takes batches from the DataLoader; how long the loop waits for that thread is not in the trace",
            ),
            _ if ranks.iter().any(prefetches) => Some(
                "the thread that takes batches from the DataLoader runs few operators: it prefetches, and how long the loop waits for it is not in the trace",
            ),
            _ => None,
        }
    }

    /// Returns a step with the time that its thread waited for the loader in it.
    fn attributed(&self, step: &Span) -> TracedStep {
        // Waits of a thread do not nest, so at most one began before the step.
        let from = self.waits.partition_point(|wait| {
            wait.thread < step.thread || (wait.thread == step.thread && wait.end <= step.start)
        });
        let own = self.waits[from..]
            .iter()
            .take_while(|wait| wait.thread == step.thread && wait.start < step.end);
        let part = |wait: &Span| (wait.end.min(step.end) - wait.start.max(step.start)).max(0.0);
        let waiting = own.map(part).fold(0.0, |sum, part| sum + part);
        let seconds = (step.end - step.start) / 1e6;
        TracedStep { number: step.number, seconds, waiting: (waiting / 1e6).clamp(0.0, seconds) }
    }
}

/// Whether a step begins before half of the one before it is over; ends of neighbours may overlap by rounding.
fn overlap(before: &Span, after: &Span) -> bool {
    let length = (before.end - before.start).min(after.end - after.start);
    after.start < before.end - 0.5 * length && length > 0.0
}

impl<'de> Deserialize<'de> for Spans {
    /// Reads a list of events, or a table with this list as `traceEvents`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spans, D::Error> {
        struct File;

        impl<'de> Visitor<'de> for File {
            type Value = Spans;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of trace events, or a table with `traceEvents`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spans, A::Error> {
                let mut spans = Spans::default();
                while let Some(event) = seq.next_element()? {
                    spans.take(&event);
                    if spans.steps.len() + spans.waits.len() > MOST_SPANS {
                        return Err(A::Error::custom(format_args!(
                            "the file has more than {MOST_SPANS} steps and waits for loaders; trace fewer \
                             steps"
                        )));
                    }
                }
                Ok(spans)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Spans, A::Error> {
                let mut spans = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key == "traceEvents" {
                        true => spans = Some(map.next_value::<Spans>()?),
                        false => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                spans.ok_or_else(|| A::Error::missing_field("traceEvents"))
            }
        }

        deserializer.deserialize_any(File)
    }
}
