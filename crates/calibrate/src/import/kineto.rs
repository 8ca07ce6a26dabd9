//! Imports PyTorch profiler traces (Kineto, Chrome trace format): step times, and how long the training loop waited for its
//! `DataLoader`.
//!
//! Waits are recorded by PyTorch itself: the spans `enumerate(DataLoader)#….__next__`. A step is a `ProfilerStep#n` span, which
//! `torch.profiler.profile` records if it has a schedule. In other traces a step is the time from the start of one wait of the
//! loop to the start of the next.

mod bounded;
mod event;
mod spans;

use crate::import::label;
use bounded::Bounded;
use flate2::read::MultiGzDecoder;
use forebay_model::input::{Capped, InputError, RECORDED, TRACED, is_utf16};
use serde::Deserialize;
use spans::Spans;
use std::io::{BufRead, BufReader, Read};

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
    /// The file ends before the trace does.
    #[error(
        "the file ends within the trace, in line {line}; export it again: the program may have ended while it wrote"
    )]
    Cut {
        /// Last line, from 1.
        line: usize,
    },
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
            // An empty file is none that was cut off.
            false if error.is_eof() && (error.line(), error.column()) != (1, 0) => {
                TraceError::Cut { line: error.line() }
            }
            false => TraceError::Malformed(error),
        }
    }
}

/// What a trace shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The steps of each rank, in order of time; a trace has one rank unless it was merged.
    pub ranks: Vec<Vec<TracedStep>>,
    /// Why it is not known how long the loop waited for its loader; `None` if it is known. [`TracedStep::waiting`] then means
    /// nothing.
    pub unknown: Option<&'static str>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// Returns the steps of a trace. The JSON may be compressed with gzip, in UTF-16, or in a log with labels before its lines; it is a table
/// with `traceEvents` or a list of events.
/// `NaN` in an event costs this event. A last step that was cut off does not count.
///
/// # Errors
/// If the text is not a trace or has no steps.
pub fn read(mut from: impl BufRead) -> Result<Trace, TraceError> {
    let start = from.fill_buf().map_err(serde_json::Error::io)?;
    let spans = if start.starts_with(&[0x1f, 0x8b]) {
        // A small compressed file may expand to a thousand times its size.
        parsed(Capped::new(MultiGzDecoder::new(from), TRACED))?
    } else if is_utf16(start) || label::has_labelled_json(start) {
        // Whether all lines carry labels is known only when all are read.
        let text = Capped::new(from, RECORDED).text();
        let text = text.map_err(|inner| TraceError::Unreadable { inner })?;
        parsed(label::unlabelled(&text).as_bytes())?
    } else {
        // Some editors put a mark at the beginning of UTF-8.
        let mark = if start.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
        from.consume(mark);
        parsed(from)?
    };
    let (events, waits) = (spans.events, spans.waits());
    let trace = spans.trace();
    if trace.ranks.is_empty() {
        return Err(TraceError::NoSteps { events, waits });
    }
    Ok(trace)
}

fn parsed(from: impl Read) -> Result<Spans, serde_json::Error> {
    let from = BufReader::new(Bounded::new(from));
    let mut deserializer = serde_json::Deserializer::from_reader(from);
    let spans = Spans::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &str) -> String {
        format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}], "traceName": "t"}}"#)
    }

    fn traced(events: &[String]) -> Trace {
        read(trace(&events.join(",")).as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn steps(text: &str) -> Vec<TracedStep> {
        read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}")).ranks.remove(0)
    }

    const WAIT: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

    fn operator(thread: u64, start: f64) -> String {
        span("aten::mm", thread, start, 1.0).replace("user_annotation", "cpu_op")
    }

    /// Returns `count` steps of 100 ms with a wait of 30 ms in `waiting` and ten operators in thread 1.
    fn training(count: u32, waiting: u64) -> Vec<String> {
        let step = |number: u32| {
            let start = 1e5 * f64::from(number);
            let own = [
                span(&format!("ProfilerStep#{number}"), 1, start, 1e5),
                span(WAIT, waiting, start + 1e3, 3e4),
            ];
            own.into_iter().chain((0..10).map(move |n| operator(1, start + 4e4 + f64::from(n))))
        };
        (0..count).flat_map(step).collect()
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
        let steps = steps(&trace(&events.join(",")));
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
        let steps = steps(&trace(&events.join(",")));
        let found: Vec<_> = steps.iter().map(|s| (s.number, s.seconds, s.waiting)).collect();
        assert_eq!(found, [(0, 1e-3, 0.25e-3), (1, 2e-3, 0.25e-3)]);
        let notes = traced(&events).notes;
        assert!(notes[0].contains("steps are counted from wait to wait"), "{notes:?}");
    }

    #[test]
    fn activation_checkpointing_hides_no_wait_of_annotated_steps() {
        // The backward pass has a thread of its own, which computes the forward pass again: more operators than the loop's.
        let again = (0..500).map(|n| operator(2, 1e3 * f64::from(n)));
        let events: Vec<String> = training(5, 1).into_iter().chain(again).collect();
        let found = traced(&events);
        assert_eq!(found.unknown, None);
        assert!((found.ranks[0][0].waiting - 0.03).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_trace_that_ends_early_is_refused_with_its_last_line() {
        let whole = trace(&training(3, 1).join(",\n"));
        let error = read(&whole.as_bytes()[..whole.len() - 40]).expect_err("cut").to_string();
        assert!(error.contains("the file ends within the trace, in line"), "{error}");
    }

    #[test]
    fn compressed_traces_are_read() {
        use std::io::Write;
        let text = trace(&span("ProfilerStep#3", 1, 0.0, 5.0));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).expect("compressed");
        let bytes = gz.finish().expect("compressed");
        assert_eq!(read(&bytes[..]).expect("steps").ranks[0][0].number, 3);
    }

    #[test]
    fn traces_in_logs_with_labels_and_in_utf16_are_read() {
        let table = trace(&training(3, 1).join(",\n"));
        let expected = read(table.as_bytes()).expect("a trace");
        let list = format!("[{}]", training(3, 1).join(","));
        for text in [&table, &list] {
            for label in [
                "[0] ",
                "[pod/a/b] ",
                "trainer-1  | ",
                "2026-11-27T10:00:00.1Z ",
                "0: ",
                "node1: ",
                "[1,0]<stdout>:",
                "a\tb\t2026-11-27T10:00:00.1Z ",
                "\x1b[32m",
            ] {
                let labelled: String =
                    text.lines().map(|line| format!("{label}{line}\n")).collect();
                assert_eq!(read(labelled.as_bytes()).expect(label), expected, "{label}");
            }
            for mark in ["", "\u{feff}"] {
                let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
                let units = units(&format!("{mark}{text}"));
                let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
                for bytes in [little, big] {
                    assert_eq!(read(&bytes[..]).expect("UTF-16"), expected);
                }
            }
        }
    }

    #[test]
    fn invalid_traces_are_reported_with_a_reason() {
        for text in ["", "{}", r#"{"traceEvents": 3}"#, "\u{0}\u{1}"] {
            let error = read(text.as_bytes()).expect_err(text);
            assert!(matches!(error, TraceError::Malformed(_)), "{text}: {error}");
        }
        let none = trace(&span("aten::mm", 1, 0.0, 1.0));
        let error = read(none.as_bytes()).expect_err("no steps");
        assert!(error.to_string().contains("call its `step()`"), "{error}");
    }

    #[test]
    fn waits_that_the_trace_does_not_show_are_not_known() {
        let known = traced(&training(5, 1));
        assert_eq!((known.unknown, known.notes.len()), (None, 0));
        assert!(known.ranks[0].iter().all(|step| (step.waiting - 0.03).abs() < 1e-12));
        let without: Vec<String> =
            training(5, 1).into_iter().filter(|event| !event.contains(WAIT)).collect();
        assert!(traced(&without).unknown.expect("a reason").contains("no DataLoader spans"));
        let prefetched = traced(&training(5, 7));
        assert!(prefetched.unknown.expect("a reason").contains("another thread"));
        assert_eq!(prefetched.ranks[0].len(), 5);
        // Without annotations, the steps are those of the thread that prefetches.
        let bare: Vec<String> =
            training(5, 7).into_iter().filter(|event| !event.contains("ProfilerStep")).collect();
        assert!(traced(&bare).unknown.expect("a reason").contains("prefetches"));
        let bare: Vec<String> =
            training(5, 1).into_iter().filter(|event| !event.contains("ProfilerStep")).collect();
        assert_eq!(traced(&bare).unknown, None);
    }

    #[test]
    fn a_last_step_that_was_cut_off_does_not_count() {
        let with = |last: &[String]| traced(&[training(3, 1), last.to_vec()].concat());
        let step = |length: f64| span("ProfilerStep#3", 1, 3e5, length);
        for (last, whole) in [
            (vec![step(50.0)], 3),
            // The loader's end, after the last batch.
            (vec![step(4e4), span(WAIT, 1, 3e5, 3.9e4)], 3),
            // A last batch that is smaller, or a long wait.
            (
                [vec![step(4e4)], (0..10).map(|n| operator(1, 3e5 + f64::from(n))).collect()]
                    .concat(),
                4,
            ),
            (vec![step(9e4)], 4),
        ] {
            let trace = with(&last);
            assert_eq!(trace.ranks[0].len(), whole, "{last:?}");
            let told = trace.notes.iter().any(|note| note.contains("cut off"));
            assert_eq!(told, whole == 3, "{:?}", trace.notes);
        }
        // A step alone may be short.
        assert_eq!(traced(&[span("ProfilerStep#0", 1, 0.0, 5.0)]).ranks[0].len(), 1);
    }

    #[test]
    fn threads_of_merged_ranks_with_equal_numbers_are_told_apart() {
        let rank = |process: &str, wait: f64| -> Vec<String> {
            let events = training(3, 1).into_iter();
            let events =
                events.map(|event| event.replace("\"pid\": 1", &format!("\"pid\": {process}")));
            events.map(|event| event.replace("30000,", &format!("{wait},"))).collect()
        };
        let merged = traced(&[rank("\"rank 0\"", 3e4), rank("\"rank 1\"", 6e4)].concat());
        let waits = merged.ranks.iter().map(|steps| steps[1].waiting);
        assert_eq!(waits.collect::<Vec<_>>(), [0.03, 0.06]);
        assert_eq!(merged.unknown, None);
        // Equal processes and threads: which wait is whose is not known.
        let same = traced(&[rank("1", 3e4), rank("1", 6e4)].concat());
        assert!(same.unknown.expect("a reason").contains("overlap"));
    }

    #[test]
    fn a_list_of_events_is_a_trace_and_one_bad_value_costs_one_event() {
        let list = format!("[{}]", training(3, 1).join(","));
        assert_eq!(steps(&list), traced(&training(3, 1)).ranks[0]);
        for bad in ["NaN", "-Infinity", "inf", "null", "\"x\"", "[1]", "{}", "1e300"] {
            let mut events = training(3, 1);
            events[1] = events[1].replace("\"dur\": 30000", &format!("\"dur\": {bad}"));
            events.push("null".to_owned());
            let trace = traced(&events);
            let waits: Vec<f64> = trace.ranks[0].iter().map(|step| step.waiting).collect();
            assert_eq!(waits, [0.0, 0.03, 0.03], "{bad}");
            assert!(waits[0].is_sign_positive());
            assert!(trace.notes[0].starts_with("2 of 37 events"), "{:?}", trace.notes);
        }
        let text =
            trace(&training(2, 1).join(",").replace("\"ts\": 100000", "\"ts\": \"100000.0\""));
        assert_eq!(steps(&text).len(), 2);
    }
}
