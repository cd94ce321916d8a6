//! Errors with cel-go's wording.

use kube_cel::cel::ExecutionError;

type Cel = kube_cel::cel::Value;

/// Words an evaluation error like cel-go, as far as possible.
pub(super) fn cel_go_message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::UndeclaredReference(name) => undeclared_text(name),
        // the evaluator's message is the debug output of its parser
        ExecutionError::FunctionError { function, .. } if function == "duration" => {
            "type conversion error from 'string' to 'google.protobuf.Duration'".to_owned()
        }
        ExecutionError::FunctionError { function, .. } if function == "timestamp" => {
            "type conversion error from 'string' to 'google.protobuf.Timestamp'".to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// The error for an undeclared message type (`Name{…}`). The reference reports it at the bracket.
pub(super) fn undeclared_message(source: &str, name: &str) -> String {
    let start = source.find(name).unwrap_or(0);
    let offset = source[start..].find('{').map_or(start, |bracket| start + bracket);
    at_offset(source, offset, &undeclared_text(name))
}

fn undeclared_text(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

/// The error for an undeclared name.
pub(super) fn undeclared(source: &str, name: &str) -> String {
    at(source, name, &undeclared_text(name))
}

/// An error at the position of `needle` in `source`, with the line and a marker below it.
pub(super) fn at(source: &str, needle: &str, what: &str) -> String {
    at_offset(source, source.find(needle).unwrap_or(0), what)
}

fn at_offset(source: &str, offset: usize, what: &str) -> String {
    let line_start = source[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = source[..offset].matches('\n').count() + 1;
    let column = source[line_start..offset].chars().count();
    let text = source[line_start..].lines().next().unwrap_or_default();
    format!("ERROR: <input>:{line}:{}: {what}\n | {text}\n | {}^", column + 1, ".".repeat(column))
}
