//! The exit codes of verbs and roles.

use std::process::ExitCode;

use crate::printer;

/// The exit code for a wrong command line.
const WRONG_USAGE: u8 = 2;

/// Prints an error.
pub(super) fn report(result: anyhow::Result<()>) -> ExitCode {
    report_success(result.map(|()| true))
}

/// Prints help, or what is wrong with a command line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let printed = error.print();
    if error.use_stderr() {
        return ExitCode::from(WRONG_USAGE);
    }
    printer::is_written(printed);
    report(Ok(()))
}

/// Prints an error. The exit code is 0 only for `true`.
pub(super) fn report_success(result: anyhow::Result<bool>) -> ExitCode {
    match result.and_then(|success| printer::check().map(|()| success)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            printer::error(&error, None);
            ExitCode::FAILURE
        }
    }
}

/// What a verb that compares has found.
pub(crate) struct Comparison {
    pub(super) is_complete: bool,
    pub(super) differs: bool,
}

/// Prints an error. As in `kubectl diff`, the exit code is 0 without differences, 1 with differences, and 2 for failures.
pub(super) fn report_comparison(result: anyhow::Result<Comparison>) -> ExitCode {
    const FAILED: u8 = 2;
    match result.and_then(|found| printer::check().map(|()| found)) {
        Ok(Comparison { is_complete: false, .. }) => ExitCode::from(FAILED),
        Ok(Comparison { differs, .. }) => report_success(Ok(!differs)),
        Err(error) => {
            printer::error(&error, None);
            ExitCode::from(FAILED)
        }
    }
}
