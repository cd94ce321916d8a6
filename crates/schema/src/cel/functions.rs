//! Functions that the `cel` crate lacks, or implements without a limit.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use kube_cel::cel::{
    Context, ExecutionError, FunctionContext, ResolveResult,
    extractors::{Arguments, This},
};
use regex::Regex;

use super::budget::{BYTES, spend, spend_regex};
use crate::patterns;

type Cel = kube_cel::cel::Value;
type List = Arc<Vec<Cel>>;

/// The most patterns in the cache. The patterns of definitions are few; rules may build others during evaluation.
const MAX_CACHED_PATTERNS: usize = 64;
/// The memory limit of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The types as values. No string that a rule can write equals one of them.
const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "duration",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

thread_local! {
    /// The compiled patterns of rules. The `cel` crate would compile them for each call.
    static PATTERNS: RefCell<HashMap<Arc<String>, Regex>> = RefCell::default();
}

/// Adds the functions.
pub(super) fn register(library: &mut Context<'_>) {
    library.add_function("matches", matches);
    library.add_function("find", find);
    library.add_function("findAll", find_all);
    library.add_function("replace", replace);
    library.add_function("join", join);
    library.add_function("lists.range", range);
    library.add_function("sets.contains", |a: List, b: List| -> ResolveResult {
        contains(&a, &b).map(Cel::Bool)
    });
    library.add_function("sets.equivalent", |a: List, b: List| -> ResolveResult {
        Ok(Cel::Bool(contains(&a, &b)? && contains(&b, &a)?))
    });
    library.add_function("sets.intersects", |a: List, b: List| -> ResolveResult {
        pairs(&a, &b)?;
        Ok(Cel::Bool(a.iter().any(|item| b.contains(item))))
    });
    library.add_function("distinct", |This(list): This<List>| -> ResolveResult {
        pairs(&list, &list)?;
        let mut distinct: Vec<Cel> = Vec::new();
        for item in list.iter() {
            if !distinct.contains(item) {
                distinct.push(item.clone());
            }
        }
        Ok(Cel::List(Arc::new(distinct)))
    });
    library.add_function("type", |value: Cel| -> ResolveResult { Ok(type_value(type_of(&value))) });
    for name in TYPES {
        library.add_variable_from_value(name, type_value(name));
    }
}

fn type_value(name: &str) -> Cel {
    Cel::String(Arc::new(format!("\u{0}type {name}")))
}

fn type_of(value: &Cel) -> &'static str {
    match value {
        Cel::Bool(_) => "bool",
        Cel::Bytes(_) => "bytes",
        Cel::Float(_) => "double",
        Cel::Int(_) => "int",
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Null => "null_type",
        Cel::String(text) if text.starts_with("\u{0}type ") => "type",
        Cel::String(_) => "string",
        Cel::UInt(_) => "uint",
        Cel::Duration(_) => "duration",
        Cel::Timestamp(_) => "timestamp",
        _ => "dyn",
    }
}

fn matches(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> Result<bool, ExecutionError> {
    with_pattern(call, pattern, |pattern| pattern.is_match(&text))
}

/// Returns the first match, or an empty text.
fn find(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    pattern: Arc<String>,
) -> ResolveResult {
    let found = |pattern: &Regex| pattern.find(&text).map_or("", |found| found.as_str()).to_owned();
    with_pattern(call, pattern, found).map(|found| Cel::String(Arc::new(found)))
}

/// Returns the matches, at most as many as the optional second argument says. A negative number means all.
fn find_all(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    Arguments(arguments): Arguments,
) -> ResolveResult {
    let limit = match arguments.get(1) {
        None => usize::MAX,
        Some(Cel::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        Some(_) => return Err(call.error("expected integer argument")),
    };
    let Some(Cel::String(pattern)) = arguments.first() else {
        return Err(call.error("expected string argument"));
    };
    let texts = |pattern: &Regex| {
        let found = pattern.find_iter(&text).take(limit);
        found.map(|found| Cel::String(Arc::new(found.as_str().to_owned()))).collect()
    };
    with_pattern(call, Arc::clone(pattern), texts).map(|found| Cel::List(Arc::new(found)))
}

/// Applies a function to a compiled pattern, which has Go's character classes.
fn with_pattern<T>(
    call: &FunctionContext<'_, '_>,
    pattern: Arc<String>,
    apply: impl FnOnce(&Regex) -> T,
) -> Result<T, ExecutionError> {
    PATTERNS.with_borrow_mut(|patterns| {
        if let Some(known) = patterns.get(&pattern) {
            return Ok(apply(known));
        }
        spend_regex()?;
        let compiled = patterns::builder(&pattern)
            .size_limit(MAX_PATTERN_BYTES)
            .build()
            .map_err(|error| call.error(format!("'{pattern}' not a valid regex:\n{error}")))?;
        let result = apply(&compiled);
        if patterns.len() >= MAX_CACHED_PATTERNS {
            patterns.clear();
        }
        patterns.insert(pattern, compiled);
        Ok(result)
    })
}

fn replace(
    call: &FunctionContext<'_, '_>,
    This(text): This<Arc<String>>,
    Arguments(arguments): Arguments,
) -> ResolveResult {
    let (Some(Cel::String(from)), Some(Cel::String(to))) = (arguments.first(), arguments.get(1)) else {
        return Err(call.error("expected string argument"));
    };
    let most = match arguments.get(2) {
        Some(Cel::Int(most)) => usize::try_from(*most).unwrap_or(if *most < 0 { usize::MAX } else { 0 }),
        _ => usize::MAX,
    };
    let times = text.matches(from.as_str()).count().min(most);
    // Paid before the text is made: a few replacements of one character by many would use all memory.
    spend((times.saturating_mul(to.len()) / BYTES) as u64)?;
    Ok(Cel::String(Arc::new(text.replacen(from.as_str(), to, most))))
}

fn join(
    call: &FunctionContext<'_, '_>,
    This(list): This<List>,
    Arguments(arguments): Arguments,
) -> ResolveResult {
    let separator = match arguments.first() {
        Some(Cel::String(separator)) => separator.as_str(),
        _ => "",
    };
    spend((list.len().saturating_mul(separator.len()) / BYTES) as u64)?;
    let mut parts = Vec::with_capacity(list.len());
    for part in list.iter() {
        match part {
            Cel::String(text) => parts.push(text.as_str()),
            _ => return Err(call.error("expected a list of strings")),
        }
    }
    Ok(Cel::String(Arc::new(parts.join(separator))))
}

fn range(call: &FunctionContext<'_, '_>, most: i64) -> ResolveResult {
    let count = u64::try_from(most).map_err(|_| call.error("range argument must be non-negative"))?;
    spend(count)?;
    Ok(Cel::List(Arc::new((0..most).map(Cel::Int).collect())))
}

/// Charges for comparing each element of `a` with each element of `b`.
fn pairs(a: &[Cel], b: &[Cel]) -> Result<(), ExecutionError> {
    spend((a.len() as u64).saturating_mul(b.len() as u64) / 4)
}

fn contains(a: &[Cel], b: &[Cel]) -> Result<bool, ExecutionError> {
    pairs(a, b)?;
    Ok(b.iter().all(|item| a.contains(item)))
}
