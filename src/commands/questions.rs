//! Questions on a terminal, each with a default answer.

use super::Failure;
use crate::template::TemplateError;
use std::io::{self, BufRead, IsTerminal, Write};

/// Maximum number of answers to a question before the program gives up.
const ATTEMPTS: usize = 20;

/// Asks for missing answers on a terminal, or takes the default answers if there is no terminal.
pub(super) struct Questions<'a> {
    /// Streams for answers and for questions; `None` if nobody can be asked.
    dialogue: Option<(&'a mut dyn BufRead, &'a mut dyn Write)>,
}

/// Returns whether somebody can answer: both standard input and standard output are terminals.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl<'a> Questions<'a> {
    /// Creates questions that are asked on `dialogue` (answers, questions); `None` takes defaults instead.
    pub(super) fn on(dialogue: Option<(&'a mut dyn BufRead, &'a mut dyn Write)>) -> Questions<'a> {
        Questions { dialogue }
    }

    /// Returns the value `given` on the command line if there is one, otherwise the user's answer, or `None` for the default.
    /// The question is repeated until `read` accepts the answer; at the end of the input the default is taken.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written, or after [`ATTEMPTS`] answers that `read` rejects.
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        given: Option<T>,
        read: impl Fn(&str) -> Result<T, TemplateError>,
    ) -> Result<Option<T>, Failure> {
        let Some((input, out)) = self.dialogue.as_mut().filter(|_| given.is_none()) else {
            return Ok(given);
        };
        for _ in 0..ATTEMPTS {
            let mut line = String::new();
            let asked = write!(out, "{question} [{default}]: ").and_then(|()| out.flush());
            let got = asked.and_then(|()| input.read_line(&mut line));
            let got = got.map_err(|error| {
                Failure::Input(format!(
                    "cannot ask for settings: {error}; write --yes to use the defaults"
                ))
            })?;
            if got == 0 {
                // The input has ended: no further question is asked.
                writeln!(out).ok();
                self.dialogue = None;
                return Ok(None);
            }
            match line.trim() {
                "" => return Ok(None),
                answer => match read(answer) {
                    Ok(value) => return Ok(Some(value)),
                    Err(error) => {
                        writeln!(out, "{error}").ok();
                    }
                },
            }
        }
        Err(Failure::Input(format!(
            "no answer to \"{question}\" was valid; write the answer as an option (see `forebay new --help`)"
        )))
    }
}

/// Parses an answer as a whole number.
pub(super) fn number(answer: &str) -> Result<u64, TemplateError> {
    answer
        .parse()
        .map_err(|_| TemplateError(format!("`{answer}` is no whole number: write one, such as 8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, given: Option<u64>) -> (Result<Option<u64>, Failure>, String) {
        let (mut input, mut out) = (text.as_bytes(), Vec::new());
        let answer =
            Questions::on(Some((&mut input, &mut out))).ask("How many", "8", given, number);
        (answer, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn invalid_answers_are_asked_again_and_empty_answers_take_the_default() {
        let (answer, shown) = asked("many\n4\n", None);
        assert_eq!(answer.ok(), Some(Some(4)));
        assert_eq!(shown.matches("How many [8]: ").count(), 2);
        assert!(shown.contains("`many` is no whole number"), "{shown}");
        assert_eq!(asked("\n", None).0.ok(), Some(None));
    }

    #[test]
    fn values_given_in_advance_are_not_asked_for_and_end_of_input_ends_questions() {
        let (answer, shown) = asked("4\n", Some(2));
        assert_eq!((answer.ok(), shown.as_str()), (Some(Some(2)), ""));
        let (answer, shown) = asked("", None);
        assert_eq!((answer.ok(), shown.as_str()), (Some(None), "How many [8]: \n"));
        let mut nobody = Questions::on(None);
        assert_eq!(nobody.ask("How many", "8", None, number).ok(), Some(None));
        assert!(asked(&"x\n".repeat(30), None).0.is_err(), "it gives up");
    }
}
