//! Writes a timeline for Perfetto and `chrome://tracing` in the Trace Event Format, one event after the other.

use super::Trace;
use serde_json::{Value, json};
use std::io;

/// Writes a trace as one JSON object. Times become microseconds; the number of a track becomes its thread id.
pub fn write(trace: &Trace, mut to: impl io::Write) -> io::Result<()> {
    write!(to, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"dropped\":{}}}", trace.dropped)?;
    write!(to, ",\"traceEvents\":[")?;
    let mut separator = "\n";
    for event in events(trace) {
        write!(to, "{separator}{event}")?;
        separator = ",\n";
    }
    writeln!(to, "\n]}}")?;
    to.flush()
}

fn events(trace: &Trace) -> impl Iterator<Item = Value> + '_ {
    let processes = trace.processes.iter().enumerate().map(|(process, name)| {
        json!({"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}})
    });
    let tracks = trace.tracks.iter().enumerate().map(|(track, (process, name))| {
        json!({"name": "thread_name", "ph": "M", "pid": process, "tid": track,
               "args": {"name": name}})
    });
    // Perfetto orders threads by this index, not by their numbers.
    let order = trace.tracks.iter().enumerate().map(|(track, (process, _))| {
        json!({"name": "thread_sort_index", "ph": "M", "pid": process, "tid": track,
               "args": {"sort_index": track}})
    });
    let spans = trace.spans.iter().map(|span| {
        json!({"name": span.name, "ph": "X", "pid": process_of(trace, span.track),
               "tid": span.track, "ts": microseconds(span.start),
               "dur": microseconds(span.duration)})
    });
    let counters = trace.counters.iter().map(|counter| {
        let name = trace.tracks.get(counter.track as usize).map_or("", |(_, name)| name.as_str());
        json!({"name": name, "ph": "C", "pid": process_of(trace, counter.track),
               "ts": microseconds(counter.time), "args": {"value": counter.value}})
    });
    processes.chain(tracks).chain(order).chain(spans).chain(counters)
}

fn process_of(trace: &Trace, track: u32) -> u32 {
    trace.tracks.get(track as usize).map_or(0, |(process, _)| *process)
}

/// Returns a time [s] in microseconds, rounded to the picosecond.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e12).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TraceCounter, TraceSpan};

    fn trace() -> Trace {
        Trace {
            processes: vec!["lenet 0, \"node\" 0".into()],
            tracks: vec![(0, "worker 0".into()), (0, "queue".into())],
            spans: vec![TraceSpan {
                track: 0,
                name: "latency".into(),
                start: 0.001,
                duration: 3e-6,
            }],
            counters: vec![TraceCounter { track: 1, time: 0.25, value: 7.0 }],
            dropped: 3,
        }
    }

    #[test]
    fn a_trace_is_valid_json_in_microseconds() {
        let mut text = Vec::new();
        write(&trace(), &mut text).unwrap();
        let read: Value = serde_json::from_slice(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 7);
        assert_eq!(events[0]["args"]["name"], "lenet 0, \"node\" 0");
        assert_eq!(events[1]["name"], "thread_name");
        assert_eq!((&events[5]["ph"], &events[5]["ts"]), (&json!("X"), &json!(1000.0)));
        assert_eq!(events[5]["dur"], 3.0);
        assert_eq!((&events[6]["name"], &events[6]["ts"]), (&json!("queue"), &json!(250_000.0)));
        assert_eq!(read["otherData"]["dropped"], 3);
    }

    #[test]
    fn an_empty_trace_is_valid_json() {
        let mut text = Vec::new();
        write(&Trace::default(), &mut text).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap()["traceEvents"], json!([]));
    }

    #[test]
    fn an_error_of_the_writer_is_passed_on() {
        let mut full = [0u8; 10];
        assert!(write(&trace(), &mut full[..]).is_err());
    }
}
