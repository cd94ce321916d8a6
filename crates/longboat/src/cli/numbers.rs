//! Flags that take numbers: a negative value is a value, and not an unknown flag, so the error says what is expected.

use std::{any::TypeId, num::ParseIntError, time::Duration};

use clap::{
    Arg, ArgAction, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// The longest time limit in seconds, a year. The end of a much longer one would be beyond what a clock can show.
pub(super) const MAX_TIMEOUT_SECONDS: u64 = 365 * 24 * 3600;

/// Lets all flags of a command and its subcommands that take numbers or durations have negative values.
pub(super) fn with_negative(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let has_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
            if arg.get_long().is_none() || !has_value {
                arg
            } else if is_number(&arg) {
                arg.allow_negative_numbers(true)
            } else if arg.get_value_parser().type_id() == TypeId::of::<Duration>() {
                // A duration is no number for clap.
                arg.allow_hyphen_values(true)
            } else {
                arg
            }
        })
        .mut_subcommands(with_negative)
}

fn is_number(arg: &Arg) -> bool {
    let numbers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
    ];
    let of_flag = arg.get_value_parser().type_id();
    numbers.into_iter().any(|number| of_flag == number)
}

/// Says which numbers a flag takes, where Rust's words say only that there is a wrong character.
pub(super) fn explain(error: clap::Error) -> clap::Error {
    let is_no_number =
        std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<ParseIntError>);
    if error.kind() != ErrorKind::ValueValidation || !is_no_number {
        return error;
    }
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let (flag, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let expected = "expected a whole number, 0 or more";
    clap::Error::raw(
        ErrorKind::ValueValidation,
        format!("invalid value '{value}' for '{flag}': {expected}\n"),
    )
}

#[cfg(test)]
mod tests {
    use crate::cli;

    fn said(line: &str) -> String {
        let arguments = ["longboat"].into_iter().chain(line.split(' ')).map(Into::into).collect();
        cli::parse(arguments).unwrap_err().render().to_string()
    }

    #[test]
    fn a_negative_number_is_refused_with_the_range() {
        for (line, part) in [
            ("up --port -1 x", "invalid value '-1' for '--port <PORT>': -1 is not in 0..=65535"),
            ("dashboard --port -1", "-1 is not in 0..=65535"),
            (
                "up --timeout -1 x",
                "invalid value '-1' for '--timeout <SECONDS>': expected a whole number, 0 or more",
            ),
            ("up --timeout soon x", "expected a whole number, 0 or more"),
            ("up --timeout 18446744073709551615 x", "18446744073709551615 is not in 0..=31536000"),
            ("install --timeout 18446744073709551615", "is not in 0..=31536000"),
            ("uninstall --timeout 18446744073709551615", "is not in 0..=31536000"),
            ("up --max-download -1 x", "expected a whole number, 0 or more"),
            ("run --temperature -1 x", "expected a number from 0 to 2"),
            ("controller --leader-elect-retry-period -2s", "\"-2s\" is not a duration such as 50ms"),
            ("epp --grpc-port -1", "'-1'"),
        ] {
            let text = said(line);
            assert!(text.contains(part) && !text.contains("unexpected argument"), "{line}: {text}");
        }
    }

    #[test]
    fn no_prompt_is_empty() {
        for line in [&["run", "x", ""][..], &["run", "x", "  "], &["up", "x", "--prompt", ""]] {
            let arguments = std::iter::once("longboat").chain(line.iter().copied()).map(Into::into).collect();
            let text = cli::parse(arguments).unwrap_err().render().to_string();
            assert!(text.contains("expected a prompt that is not empty"), "{line:?}: {text}");
        }
    }
}
