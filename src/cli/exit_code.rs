//! Exit codes of the program.

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode {
    /// The code.
    pub code: u8,
    /// What it means, as words without a full stop.
    pub meaning: &'static str,
    /// What to do then, in a sentence.
    pub remedy: &'static str,
}

/// All exit codes.
pub const EXIT_CODES: [ExitCode; 5] = [
    ExitCode {
        code: 0,
        meaning: "done",
        remedy: "A pipe that was closed by whoever read it ends the program with this code, too.",
    },
    ExitCode {
        code: 1,
        meaning: "a check failed",
        remedy: "The output is complete; what was to hold (a tolerance of `validate`, a goal of `plan`) does not.",
    },
    ExitCode {
        code: 2,
        meaning: "the input is at fault",
        remedy: "The message says where, and what to write instead.",
    },
    ExitCode {
        code: 3,
        meaning: "the machine lacks something",
        remedy: "The message says what, such as space on a disk; `forebay doctor` says what there is.",
    },
    ExitCode {
        code: 4,
        meaning: "interrupted, with what was finished kept",
        remedy: "The message says what was kept, and how to go on.",
    },
];
