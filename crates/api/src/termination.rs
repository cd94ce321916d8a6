//! Why a program ended, by the end of its output. The status of services, `up` and the doctor show one line of it.
//!
//! The last line says it for most programs. Programs in Python end with a traceback, of which vLLM prints several: the process
//! that failed has its own, and those that waited for it add theirs ("See root cause above"), then warnings of the interpreter.

use std::collections::HashMap;

/// Begins the lines of a traceback, at the end of its line, because some programs log it behind a message.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Begins a line of a traceback that names a place. A message that was cut may begin with such a line.
const PLACE: &str = "File \"";

/// Begins the message of an interpreter that was killed by its own fault.
const FATAL: &str = "Fatal Python error: ";

/// Parts of exceptions that only say that another one was the cause.
const POINTERS: [&str; 3] = ["root cause", "stack trace above", "stack trace (above)"];

/// Exceptions that end a program without a fault of their own.
const ENDINGS: [&str; 4] = [
    "SystemExit",
    "KeyboardInterrupt",
    "asyncio.exceptions.CancelledError",
    "concurrent.futures._base.CancelledError",
];

/// The most lines between an exception and the end, or the exception that points to it. An older one was survived.
const MAX_DISTANCE: usize = 80;

/// The most indented lines that belong to the message above them. More are a listing.
const MAX_LINES_BELOW: usize = 10;

/// An exception at the end of a traceback.
struct Exception {
    /// The numbers of the first line of the traceback, and of the line with the exception.
    lines: (usize, usize),
    text: String,
}

/// Returns the line of a program's output that says why the program ended, or `None` if the output is empty.
pub fn cause(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
    let mut end = lines.len();
    for exception in exceptions(&lines).into_iter().rev() {
        if end.saturating_sub(exception.lines.1) > MAX_DISTANCE {
            break;
        }
        if exception.is_the_cause() {
            return Some(exception.text);
        }
        // What it points to stands above its own traceback.
        end = exception.lines.0;
    }
    last(&lines)
}

/// Ends the message of a program of ours whose arguments are wrong. The error is above, with suggestions and the usage between.
const SEE_HELP: &str = "For more information, try '--help'.";

/// Begins such an error.
const ERROR: &str = "error: ";

/// Returns the last message that is not a warning of Python: a line with the indented lines below it.
fn last(lines: &[&str]) -> Option<String> {
    let filled: Vec<&str> = lines.iter().copied().filter(|line| !line.is_empty()).collect();
    if filled.last() == Some(&SEE_HELP)
        && let Some(error) = filled.iter().rev().find_map(|line| line.strip_prefix(ERROR))
    {
        return Some(error.to_owned());
    }
    let mut end = filled.len();
    // Below a warning is the line of code that it is about.
    while end > 0
        && (is_warning(filled[end - 1])
            || (end > 1 && is_warning(filled[end - 2]) && is_indented(filled[end - 1])))
    {
        end -= 1;
    }
    let filled = if end == 0 { &filled[..] } else { &filled[..end] };
    let newest = filled.last()?;
    let below = filled.iter().rev().take_while(|line| is_indented(line)).count();
    match filled.len().checked_sub(below + 1) {
        Some(first) if below <= MAX_LINES_BELOW => {
            let mut message = filled[first].to_owned();
            for line in &filled[first + 1..] {
                add(&mut message, line.trim_start());
            }
            Some(message)
        }
        _ => Some(newest.trim_start().to_owned()),
    }
}

fn is_warning(line: &str) -> bool {
    let mut parts = line.splitn(4, ':').skip(1).map(str::trim);
    let (line, category) = (parts.next(), parts.next());
    line.is_some_and(|line| line.parse::<u32>().is_ok())
        && category.is_some_and(|category| category.ends_with("Warning"))
}

/// Returns all exceptions, in the order of their last lines.
fn exceptions(lines: &[&str]) -> Vec<Exception> {
    // The processes of a program write to the same output, and each says who it is at the beginning of its lines.
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut found: Vec<Exception> = Vec::new();
    // The exception to whose message the next line of the same record may belong.
    let mut continued: Option<&str> = None;
    for (number, line) in lines.iter().enumerate() {
        let (record, text) = record(line);
        if text.ends_with(TRACEBACK) || (is_indented(text) && text.trim_start().starts_with(PLACE)) {
            open.entry(record).or_insert(number);
            continued = None;
        } else if is_indented(text) {
            if continued == Some(record)
                && let Some(exception) = found.last_mut()
            {
                add(&mut exception.text, text.trim_start());
            }
        } else if text.starts_with(FATAL) {
            found.push(Exception { lines: (number, number), text: text.to_owned() });
            // What another process still writes about its exception does not belong to this one.
            continued = None;
        } else if is_exception(text)
            && let Some(first) = open.remove(record)
        {
            found.push(Exception { lines: (first, number), text: text.to_owned() });
            continued = Some(record);
        } else if continued == Some(record) {
            continued = None;
        }
    }
    found
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// Splits a line into what vLLM's logger writes before each line of a message, and the rest:
/// `(EngineCore pid=7) ERROR 11-26 10:03:17 [core.py:1510] `, of which each part may be absent.
fn record(line: &str) -> (&str, &str) {
    let after_process = line
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") "))
        .filter(|(process, _)| process.contains(" pid="))
        .map_or(line, |(_, rest)| rest);
    let is_level = ["ERROR ", "CRITICAL ", "WARNING ", "INFO ", "DEBUG "]
        .iter()
        .any(|level| after_process.starts_with(level));
    let text = match after_process.split_once("] ") {
        Some((head, rest)) if is_level && head.contains(" [") => rest,
        // The line is empty behind its beginning.
        None if is_level && after_process.ends_with(']') => "",
        _ => after_process,
    };
    line.split_at(line.len() - text.len())
}

/// Whether a line begins with the name of an exception.
fn is_exception(text: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && part.chars().all(|each| each.is_alphanumeric() || each == '_')
    };
    // Levels of logs are upper case.
    name.split('.').all(is_name) && name.contains(char::is_lowercase)
}

// === impl Exception ===

impl Exception {
    fn is_the_cause(&self) -> bool {
        let name = self.text.split(':').next().unwrap_or_default();
        !ENDINGS.contains(&name) && !POINTERS.iter().any(|pointer| self.text.contains(pointer))
    }
}

/// Adds a line to a message. Pydantic says below what is wrong, together with all of its input and an address.
fn add(message: &mut String, line: &str) {
    if line.starts_with("For further information") {
        return;
    }
    let line = line.split(" [type=").next().unwrap_or_default();
    message.push_str(if message.ends_with([':', ',', '.']) { " " } else { ": " });
    message.push_str(line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A traceback of a program that ends.
    const PLAIN: &str = "\
loading
Traceback (most recent call last):
  File \"/srv/main.py\", line 3, in <module>
    serve(sys.argv[1])
    ^^^^^^^^^^^^^^^^^^
  File \"/srv/main.py\", line 9, in serve
    raise OSError(f\"no such model: {name}\")
OSError: no such model: x
";

    fn of(output: &str) -> String {
        cause(output).unwrap_or_default()
    }

    #[test]
    fn programs_without_a_traceback_say_it_in_their_last_line() {
        assert_eq!(cause(""), None);
        assert_eq!(cause("\n \n"), None);
        for (output, expected) in [
            ("loading\nno such file\n\n", "no such file"),
            ("  indented  \n", "indented"),
            ("error: no model\nhint: write `model`\n", "hint: write `model`"),
            (
                "usage: serve [-h]\nserve: error: unrecognized arguments: --x\n",
                "serve: error: unrecognized arguments: --x",
            ),
        ] {
            assert_eq!(of(output), expected, "{output}");
        }
    }

    #[test]
    fn warnings_of_python_after_the_end_are_not_the_cause() {
        let warning = "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: leaked\n  \
                       warnings.warn('resource_tracker: There appear to be %d '\n";
        assert_eq!(of(&format!("{PLAIN}{warning}{warning}")), "OSError: no such model: x");
        assert_eq!(of(&format!("serve: error: no model\n{warning}")), "serve: error: no model");
        assert!(of(warning).contains("UserWarning: resource_tracker: leaked"), "there is nothing else");
    }

    #[test]
    fn the_last_exception_of_a_chain_is_the_cause() {
        let link = "\nThe above exception was the direct cause of the following exception:\n\n";
        let second =
            PLAIN.replace("OSError: no such model: x", "pkg.errors.ConfigError: cannot read the settings");
        assert_eq!(of(&format!("{PLAIN}{link}{second}")), "pkg.errors.ConfigError: cannot read the settings");
        for ending in ["SystemExit: 1", "KeyboardInterrupt", "RuntimeError: Failed. See root cause above. {}"]
        {
            let second = PLAIN.replace("OSError: no such model: x", ending);
            assert_eq!(of(&format!("{PLAIN}{link}{second}")), "OSError: no such model: x", "{ending}");
        }
    }

    #[test]
    fn an_exception_that_the_program_survived_is_not_the_cause() {
        let more = |count| "INFO: GET /health 200\n".repeat(count);
        assert_eq!(of(&format!("{PLAIN}{}", more(MAX_DISTANCE - 1))), "OSError: no such model: x");
        assert_eq!(of(&format!("{PLAIN}{}killed", more(MAX_DISTANCE))), "killed");
        let fatal = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n  File \"a.py\", line 1\n";
        assert_eq!(of(&format!("{PLAIN}{fatal}")), "Fatal Python error: Segmentation fault");
    }

    #[test]
    fn processes_that_write_at_the_same_time_are_told_apart() {
        let logged = |process: &str, exception: &str| -> Vec<String> {
            let text = PLAIN.replace("OSError: no such model: x", exception);
            text.lines()
                .map(|line| format!("({process}) ERROR 11-26 10:03:17 [core.py:9] {line}\r\n"))
                .collect()
        };
        let one = logged("EngineCore pid=1", "ValueError: no memory");
        let other = logged(
            "APIServer pid=2",
            "RuntimeError: Engine core initialization failed. See root cause above.",
        );
        let mixed: String = one.iter().zip(&other).flat_map(|(one, other)| [one.as_str(), other]).collect();
        assert_eq!(of(&mixed), "ValueError: no memory");

        let first = logged("Worker pid=3", "ValueError: no memory\n  on device 0");
        let (last, before) = first.split_last().unwrap();
        let mixed = format!("{}Fatal Python error: Aborted\n{last}", before.concat());
        assert_eq!(of(&mixed), "Fatal Python error: Aborted");
    }

    #[test]
    fn a_message_of_several_lines_is_one_line() {
        let exception = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, too \
                         long [type=value_error, input_value={'model': 'x'}, input_type=dict]\n    For further information visit \
                         https://errors.pydantic.dev/2/v/value_error";
        let output = PLAIN.replace("OSError: no such model: x", exception);
        let expected = "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: Value error, too long";
        assert_eq!(of(&output), expected);
        // So says a message that begins with the cause.
        assert_eq!(of(&format!("{TRACEBACK}\n  …\n{expected}\nINFO: bye\n")), expected);
    }

    #[test]
    fn a_traceback_may_be_logged_behind_a_message_or_be_cut_at_its_beginning() {
        let behind = PLAIN
            .replace(TRACEBACK, &format!("[2026-01-01 10:00:00] Scheduler hit an exception: {TRACEBACK}"));
        assert_eq!(of(&format!("{behind}\nINFO: bye\n")), "OSError: no such model: x");
        let (_, cut) = PLAIN.split_once("in <module>\n").unwrap();
        assert_eq!(of(&format!("{cut}INFO: bye\n")), "OSError: no such model: x");
    }

    /// What a real vLLM printed (`tests/vllm/failures.rs` asks it again).
    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../../tests/vllm/failures/", $name, ".log"))
        };
    }

    #[test]
    fn a_vllm_that_does_not_start_says_why() {
        for (output, expected) in [
            (recorded!("unknown-flag"), "vllm: error: unrecognized arguments: --max-modl-len 512"),
            (
                recorded!("no-model"),
                "huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_' or '.'. The name cannot \
                 start or end with '-' or '.' and the maximum length is 96: '/mnt/models'.",
            ),
            (recorded!("no-weights"), "RuntimeError: Cannot find any model weights with `/mnt/models`"),
            (
                recorded!("long-context"),
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig: Value error, User-specified \
                 max_model_len (100000) is greater than the derived max_model_len (max_position_embeddings=8192.0",
            ),
            (
                recorded!("no-memory"),
                "ValueError: To serve at least one request with the model's max seq len (8192), (0.0 GiB KV cache is needed, which \
                 is larger than the available KV cache memory",
            ),
            (
                recorded!("wrong-value"),
                "vllm serve: error: argument --structured-outputs-config: 1 validation error for StructuredOutputsConfig: Value \
                 error, disable_any_whitespace is only supported for xgrammar and guidance backends.",
            ),
            (recorded!("port-in-use"), "OSError: [Errno 98] Address already in use"),
            (
                recorded!("no-offloading"),
                "Exception: CPU Offloading is currently only supported on CUDA-alike and XPU GPUs",
            ),
        ] {
            let found = of(output);
            assert!(found.starts_with(expected), "{found}\ninstead of\n{expected}");
            assert!(!found.contains("For further information"), "{found}");
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read(lines in prop::collection::vec(
            prop_oneof![
                Just(TRACEBACK.to_owned()), Just("  File \"a\", line 1".to_owned()), Just("(A pid=1) ERROR 1 [a:1] ".to_owned()),
                Just("(A pid=1) ERROR 1 [a:1] E: see root cause".to_owned()), Just("a.B: c".to_owned()), Just("  more".to_owned()),
                Just("/a:1: UserWarning: b".to_owned()), ".{0,20}",
            ], 0..12,
        )) {
            let output = lines.join("\n");
            let found = cause(&output);
            prop_assert_eq!(found.is_none(), output.lines().all(|line| line.trim_end().is_empty()));
        }
    }
}
