//! Recognises files by their beginning, so that the refusal of a file of the wrong kind says what reads it.

/// A kind of file that forebay reads, or that is easily taken for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A trace of the PyTorch profiler.
    Kineto,
    /// Output of nccl-tests or rccl-tests, as text or as JSON by `-J`.
    NcclTests,
    /// JSON by rccl-tests.
    RcclJson,
    /// Output of the OSU micro-benchmarks.
    Osu,
    /// Output of the Intel MPI Benchmarks.
    Imb,
    /// Output of DeepBench, or a table of its results.
    DeepBench,
    /// A workload of DLIO or MLPerf Storage.
    Dlio,
    /// Samples that forebay measured or imported.
    Samples,
    /// A profile of a machine.
    Profile,
    /// A scenario.
    Scenario,
    /// Other JSON.
    Json,
}

/// Bytes at the beginning of a file that are looked at.
const BEGINNING: usize = 1 << 16;

impl FileKind {
    /// Returns the kind of file that a text is; `None` if it resembles none.
    #[must_use]
    pub fn of(text: &str) -> Option<FileKind> {
        let text = &text[..text.floor_char_boundary(BEGINNING)];
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let has = |words: &[&str]| words.iter().all(|word| text.contains(word));
        // A list in TOML begins with a name in brackets.
        if text.starts_with('{') || text.starts_with('[') && text[1..].trim_start().starts_with('{')
        {
            let kinds: [(&[&str], FileKind); 5] = [
                (&["\"traceEvents\""], FileKind::Kineto),
                (&["\"ph\"", "\"ts\""], FileKind::Kineto),
                (&["\"probe\"", "\"seconds\""], FileKind::Samples),
                (&["\"busBw\""], FileKind::RcclJson),
                (&["\"bus_bw\""], FileKind::NcclTests),
            ];
            let found = kinds.iter().find(|(words, _)| has(words));
            return Some(found.map_or(FileKind::Json, |(_, kind)| *kind));
        }
        let kinds: [(&[&str], FileKind); 8] = [
            (&["[[job]]"], FileKind::Scenario),
            (&["[provenance]", "[host]"], FileKind::Profile),
            (&["algbw", "busbw"], FileKind::NcclTests),
            (&["nThread", "minBytes"], FileKind::NcclTests),
            (&["OSU ", " Test"], FileKind::Osu),
            (&["Benchmarking ", "#bytes"], FileKind::Imb),
            (&["Intel(R) MPI Benchmarks"], FileKind::Imb),
            (&["# of floats", "AllReduce"], FileKind::DeepBench),
        ];
        let found = kinds.iter().find(|(words, _)| has(words)).map(|(_, kind)| *kind);
        found
            .or_else(|| is_deepbench_table(text).then_some(FileKind::DeepBench))
            .or_else(|| is_dlio(text).then_some(FileKind::Dlio))
    }

    /// Returns words for the end of a refusal: what the file looks like, and what reads it.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            FileKind::Kineto => {
                "it looks like a trace of the PyTorch profiler: `forebay import kineto` reads it"
            }
            FileKind::NcclTests => {
                "it looks like the output of nccl-tests: `forebay import nccl-tests` reads it"
            }
            FileKind::RcclJson => {
                "it looks like JSON of rccl-tests, which forebay does not read: give the text that rccl-tests prints to \
                 `forebay import nccl-tests`"
            }
            FileKind::Osu => {
                "it looks like the output of the OSU micro-benchmarks: `forebay import osu` reads it"
            }
            FileKind::Imb => {
                "it looks like the output of the Intel MPI Benchmarks: `forebay import imb` reads it"
            }
            FileKind::DeepBench => {
                "it looks like results of DeepBench: `forebay import deepbench` reads it"
            }
            FileKind::Dlio => {
                "it looks like a workload of DLIO or MLPerf Storage: `forebay import dlio` reads it"
            }
            FileKind::Samples => {
                "it looks like samples of forebay: `forebay profile fit` reads them"
            }
            FileKind::Profile => {
                "it looks like a profile: a scenario names it as `profile`, and `forebay profile show` shows it"
            }
            FileKind::Scenario => "it looks like a scenario: `forebay run` reads it",
            FileKind::Json => "it is JSON",
        }
    }
}

/// Whether a line names the columns that a table of DeepBench's results must have.
fn is_deepbench_table(text: &str) -> bool {
    let is_header = |line: &str| {
        let has = |name: &str| line.split(',').any(|column| column.trim() == name);
        has("milliseconds") && has("ranks") && (has("floats") || has("bytes"))
    };
    text.lines().any(is_header)
}

/// Whether at least two of the sections of a workload begin lines of YAML.
fn is_dlio(text: &str) -> bool {
    let sections =
        ["dataset:", "reader:", "train:", "workflow:", "checkpoint:", "framework:", "workload:"];
    let begin = |section: &&&str| text.lines().any(|line| line.trim().starts_with(**section));
    sections.iter().filter(begin).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_files_are_recognised_by_their_beginning() {
        for (text, kind) in [
            ("{\"schemaVersion\": 1, \"traceEvents\": []}", Some(FileKind::Kineto)),
            ("[{\"ph\": \"X\", \"ts\": 0}]", Some(FileKind::Kineto)),
            ("{\"results\": [{\"out_of_place\": {\"bus_bw\": 1}}]}", Some(FileKind::NcclTests)),
            ("[{\"size\": 8, \"algBw\": 1, \"busBw\": 1}]", Some(FileKind::RcclJson)),
            ("{\"probe\": \"read\", \"seconds\": 1}\n", Some(FileKind::Samples)),
            ("{\"jobs\": []}", Some(FileKind::Json)),
            ("[0] # size count type redop time algbw busbw\n", Some(FileKind::NcclTests)),
            ("# OSU MPI Latency Test v5\n", Some(FileKind::Osu)),
            ("# Benchmarking PingPong\n#bytes #repetitions\n", Some(FileKind::Imb)),
            ("# All-reduce\r\nm,ranks,floats, milliseconds\r\n", Some(FileKind::DeepBench)),
            ("NCCL AllReduce\n# of floats  bytes\n", Some(FileKind::DeepBench)),
            ("ranks,seconds,floats\n", None),
            ("workflow:\n  train: False\ndataset:\n", Some(FileKind::Dlio)),
            ("[run]\n[[job]]\n", Some(FileKind::Scenario)),
            ("[cluster]\nnodes = 1\n", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(FileKind::of(text), kind, "{text}");
            assert!(kind.is_none_or(|kind| !kind.hint().is_empty()));
        }
        assert_eq!(FileKind::of(&"\u{e9}".repeat(BEGINNING)), None);
    }
}
