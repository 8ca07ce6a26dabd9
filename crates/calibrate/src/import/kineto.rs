//! Imports PyTorch profiler traces (Kineto, Chrome trace format): step times, and how long the training loop waited for its
//! `DataLoader`.
//!
//! Waits are recorded by PyTorch itself: the spans `enumerate(DataLoader)#….__next__`. A step is a `ProfilerStep#n` span, which
//! `torch.profiler.profile` records if it has a schedule. In other traces a step is the time from the start of one wait of the
//! loop to the start of the next.

mod bounded;

use bounded::Bounded;
use flate2::read::MultiGzDecoder;
use forebay_model::input::{Capped, InputError, TRACED};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::{BufRead, BufReader, Read};

/// Limit for the number of steps and waits; each takes about 40 bytes of memory.
const MOST_SPANS: usize = 10_000_000;
/// Prefix of the names of steps.
const STEP: &str = "ProfilerStep#";
/// Prefix of the names of waits.
const WAIT: &str = "enumerate(DataLoader)#";

/// A step of the training loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TracedStep {
    /// Number of the step, as counted by the profiler.
    pub number: u64,
    /// Duration of the step [s].
    pub seconds: f64,
    /// Time within the step in the loader's `__next__` [s].
    pub waiting: f64,
}

/// Why a trace cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is not valid JSON, or not a PyTorch trace.
    #[error("not a PyTorch trace: {0}")]
    Malformed(serde_json::Error),
    /// The file cannot be read, or exceeds the limits for memory.
    #[error("{inner}; {}", inner.remedy())]
    Unreadable {
        /// Reason.
        inner: InputError,
    },
    /// The trace has no steps.
    #[error(
        "the file has no steps ({events} events, {waits} of them waits for a DataLoader); give \
         `torch.profiler.profile` a `schedule` and call its `step()` at the end of each training step, \
         so that the trace has `ProfilerStep#` spans"
    )]
    NoSteps {
        /// Number of spans in the file.
        events: usize,
        /// Number of spans in which the loop waited for its loader.
        waits: usize,
    },
}

impl From<serde_json::Error> for TraceError {
    fn from(error: serde_json::Error) -> TraceError {
        match error.is_io() {
            true => TraceError::Unreadable { inner: InputError::from_reader(error.into()) },
            false => TraceError::Malformed(error),
        }
    }
}

/// Returns the steps of a trace in order of time. The JSON may be compressed with gzip.
///
/// # Errors
/// If the text is not a trace or has no steps.
pub fn steps(mut from: impl BufRead) -> Result<Vec<TracedStep>, TraceError> {
    let start = from.fill_buf().map_err(serde_json::Error::io)?;
    let mut spans = if start.starts_with(&[0x1f, 0x8b]) {
        // A small compressed file may expand to a thousand times its size.
        read(Capped::new(MultiGzDecoder::new(from), TRACED))?
    } else {
        read(from)?
    };
    if spans.steps.is_empty() {
        spans.between_waits();
    }
    if spans.steps.is_empty() {
        return Err(TraceError::NoSteps { events: spans.events, waits: spans.waits.len() });
    }
    Ok(spans.attributed())
}

fn read(from: impl Read) -> Result<Spans, serde_json::Error> {
    /// The fields of a trace file that are used.
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "traceEvents")]
        spans: Spans,
    }
    let from = BufReader::new(Bounded::new(from));
    let mut deserializer = serde_json::Deserializer::from_reader(from);
    let file = File::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(file.spans)
}

/// A span of one thread; times in microseconds [us].
#[derive(Debug, Clone, Copy)]
struct Span {
    number: u64,
    thread: u64,
    start: f64,
    end: f64,
}

/// Steps and waits, extracted from the events one by one, since traces may be larger than memory.
#[derive(Default)]
struct Spans {
    events: usize,
    steps: Vec<Span>,
    waits: Vec<Span>,
}

impl Spans {
    fn take(&mut self, event: &Event) {
        self.events += 1;
        let (Some(start), Some(duration)) = (event.ts, event.dur) else { return };
        if event.ph.as_deref() != Some("X") || !start.is_finite() || duration.is_nan() {
            return;
        }
        let Some(name) = event.name.as_deref() else { return };
        let thread = event.tid.as_ref().map_or(0, |thread| thread.0);
        let span = Span { number: 0, thread, start, end: start + duration.max(0.0) };
        if let Some(number) = name.strip_prefix(STEP).and_then(|number| number.parse().ok()) {
            // The annotations of the GPU repeat each step.
            if event.cat.as_deref() != Some("gpu_user_annotation") {
                self.steps.push(Span { number, ..span });
            }
        } else if name.starts_with(WAIT) {
            self.waits.push(span);
        }
    }

    /// Makes steps from waits: each step is the time from the start of one wait to the start of the next wait in the same thread.
    fn between_waits(&mut self) {
        self.waits.sort_by(|a, b| a.thread.cmp(&b.thread).then(a.start.total_cmp(&b.start)));
        let pairs = self.waits.windows(2).filter(|pair| pair[0].thread == pair[1].thread);
        let steps =
            pairs.zip(0..).map(|(pair, number)| Span { number, end: pair[1].start, ..pair[0] });
        self.steps = steps.collect();
    }

    /// Returns every step with the time that its thread waited for the loader during the step.
    fn attributed(mut self) -> Vec<TracedStep> {
        self.steps.sort_by(|a, b| a.start.total_cmp(&b.start));
        self.waits.sort_by(|a, b| a.start.total_cmp(&b.start));
        let steps = self.steps.iter();
        steps
            .map(|step| {
                // Waits of a thread do not nest, so at most one began before the step.
                let from = self.waits.partition_point(|wait| wait.end <= step.start);
                let within = self.waits[from..].iter().take_while(|wait| wait.start < step.end);
                let own = within.filter(|wait| wait.thread == step.thread);
                let waiting: f64 =
                    own.map(|wait| wait.end.min(step.end) - wait.start.max(step.start)).sum();
                let seconds = (step.end - step.start) / 1e6;
                let waiting = (waiting / 1e6).clamp(0.0, seconds);
                TracedStep { number: step.number, seconds, waiting }
            })
            .collect()
    }
}

/// The fields of an event that are used.
#[derive(Deserialize)]
struct Event {
    ph: Option<String>,
    cat: Option<String>,
    name: Option<String>,
    tid: Option<Thread>,
    ts: Option<f64>,
    dur: Option<f64>,
}

/// The number of a thread; 0 if it is not a number, as in metadata events.
struct Thread(u64);

impl<'de> Deserialize<'de> for Thread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Thread, D::Error> {
        struct Number;

        impl<'de> Visitor<'de> for Number {
            type Value = Thread;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a thread")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Thread, E> {
                Ok(Thread(number))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Thread, E> {
                Ok(Thread(0))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Thread, E> {
                Ok(Thread(0))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Thread, E> {
                Ok(Thread(0))
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Thread, E> {
                Ok(Thread(0))
            }

            fn visit_unit<E: Error>(self) -> Result<Thread, E> {
                Ok(Thread(0))
            }

            // Nested values are skipped, not stored.
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Thread, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Thread(0))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Thread, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Thread(0))
            }
        }

        deserializer.deserialize_any(Number)
    }
}

impl<'de> Deserialize<'de> for Spans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spans, D::Error> {
        struct Events;

        impl<'de> Visitor<'de> for Events {
            type Value = Spans;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of trace events")
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
        }

        deserializer.deserialize_seq(Events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &str) -> String {
        format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}], "traceName": "t"}}"#)
    }

    fn span(name: &str, thread: u64, start: f64, duration: f64) -> String {
        format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": {thread},
                "ts": {start}, "dur": {duration}, "args": {{"External id": 7}}}}"#
        )
    }

    #[test]
    fn each_profiler_step_counts_the_data_loader_waits_within_the_step() {
        let wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
        let events = [
            span("ProfilerStep#1", 5, 2_000.0, 1_000.0),
            span("ProfilerStep#0", 5, 0.0, 2_000.0),
            span(wait, 5, 100.0, 400.0),
            // One half is in the first step, the other half in the second.
            span(wait, 5, 1_900.0, 200.0),
            // This wait is in another thread.
            span(wait, 6, 500.0, 1_000.0),
            span("aten::conv2d", 5, 600.0, 10.0),
            r#"{"ph": "M", "name": "process_name", "tid": "cpu"}"#.to_owned(),
        ];
        let steps = steps(trace(&events.join(",")).as_bytes()).expect("steps");
        let expected = [(0, 2e-3, 0.5e-3), (1, 1e-3, 0.1e-3)];
        assert_eq!(steps.len(), expected.len());
        for (step, (number, seconds, waiting)) in steps.iter().zip(expected) {
            assert_eq!(step.number, number);
            assert!((step.seconds - seconds).abs() < 1e-12, "{step:?}");
            assert!((step.waiting - waiting).abs() < 1e-12, "{step:?}");
        }
    }

    #[test]
    fn without_a_profiler_schedule_each_data_loader_wait_begins_a_step() {
        let wait = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        let events: Vec<_> = [0.0, 1_000.0, 3_000.0].map(|t| span(wait, 1, t, 250.0)).into();
        let steps = steps(trace(&events.join(",")).as_bytes()).expect("steps");
        let found: Vec<_> = steps.iter().map(|s| (s.number, s.seconds, s.waiting)).collect();
        assert_eq!(found, [(0, 1e-3, 0.25e-3), (1, 2e-3, 0.25e-3)]);
    }

    #[test]
    fn compressed_traces_are_read() {
        use std::io::Write;
        let text = trace(&span("ProfilerStep#3", 1, 0.0, 5.0));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).expect("compressed");
        let bytes = gz.finish().expect("compressed");
        assert_eq!(steps(&bytes[..]).expect("steps")[0].number, 3);
    }

    #[test]
    fn invalid_traces_are_reported_with_a_reason() {
        for text in ["", "{", "[]", "{}", r#"{"traceEvents": 3}"#, "\u{0}\u{1}"] {
            let error = steps(text.as_bytes()).expect_err(text);
            assert!(matches!(error, TraceError::Malformed(_)), "{text}: {error}");
        }
        let error = steps(trace(&span("aten::mm", 1, 0.0, 1.0)).as_bytes()).expect_err("no steps");
        assert!(error.to_string().contains("call its `step()`"), "{error}");
    }
}
