//! The use of a model, from the flags of the command line.

use crate::{ArgsError, Flag};

/// The use of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The use for which the model was trained.
    Auto,
    /// Answers.
    Answers,
    /// Vectors of texts.
    Vectors,
}

// === impl Purpose ===

impl Purpose {
    /// Combines `--runner`, `--convert` and the older `--task`.
    pub fn of(flags: &[Flag]) -> Result<Self, ArgsError> {
        let mut purpose = Self::Auto;
        for flag in flags {
            let value = match (flag.name.as_str(), flag.text()) {
                ("runner", word) => match word? {
                    "auto" => Self::Auto,
                    "generate" => Self::Answers,
                    "pooling" => Self::Vectors,
                    other => return Err(unknown(flag, other, "auto, generate or pooling")),
                },
                ("convert", word) => match word? {
                    "auto" | "none" => Self::Auto,
                    "embed" => Self::Vectors,
                    other => return Err(unknown(flag, other, "auto, none or embed")),
                },
                ("task", word) => match word? {
                    "auto" => Self::Auto,
                    "generate" => Self::Answers,
                    "embed" | "embedding" => Self::Vectors,
                    other => return Err(unknown(flag, other, "auto, generate or embed")),
                },
                _ => continue,
            };
            purpose = match (purpose, value) {
                (purpose, Self::Auto) => purpose,
                (Self::Auto, value) => value,
                (purpose, value) if purpose == value => purpose,
                _ => {
                    return Err(flag.invalid("another flag sets a different purpose of the model".into()));
                }
            };
        }
        Ok(purpose)
    }
}

fn unknown(flag: &Flag, word: &str, expected: &str) -> ArgsError {
    flag.invalid(format!("`{word}`: expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let purpose = |arguments: &[&str]| Purpose::of(&CommandLine::parse(arguments).flags);
        assert_eq!(purpose(&["m", "--port", "1"]), Ok(Purpose::Auto));
        assert_eq!(purpose(&["m", "--runner", "auto", "--convert", "none"]), Ok(Purpose::Auto));
        for flags in
            [["--runner", "pooling"], ["--convert", "embed"], ["--task", "embed"], ["--task", "embedding"]]
        {
            assert_eq!(purpose(&flags), Ok(Purpose::Vectors), "{flags:?}");
        }
        assert_eq!(purpose(&["--runner", "generate", "--task", "generate"]), Ok(Purpose::Answers));
        for flags in [
            &["--runner", "draft"][..],
            &["--convert", "classify"],
            &["--task", "score"],
            &["--runner", "generate", "--convert", "embed"],
            &["--runner"],
        ] {
            assert!(purpose(flags).is_err(), "{flags:?}");
        }
    }
}
