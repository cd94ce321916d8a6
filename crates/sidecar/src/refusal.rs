//! What is wrong with the arguments of a sidecar's container, known before a pod starts.

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser as _};

use crate::{
    args::{Program, expanded},
    settings::Settings,
};

/// Returns why no sidecar starts with these arguments, if its container has these variables. `None` if that depends on its pod.
pub fn refusal(arguments: &[String], variables: &[&str]) -> Option<String> {
    let is_mounted = |argument: &String| argument.starts_with("--configuration-file");
    if arguments.iter().any(is_mounted) {
        return None;
    }
    let args = expanded(arguments.iter().map(OsString::from))
        .map_err(|error| error.to_string())
        .and_then(|words| Program::try_parse_from(words).map_err(|error| error.to_string()));
    match args {
        Ok(Program { args }) => {
            // A variable may have what the flags lack.
            let command = Program::command();
            let mut read = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
            let is_known = !read.any(|variable| variables.contains(&variable));
            Settings::try_from(args).err().filter(|_| is_known).map(|error| error.to_string())
        }
        Err(error) => Some(error),
    }
}
