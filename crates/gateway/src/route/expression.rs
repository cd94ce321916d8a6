//! Regular expressions of routes, with limits: whoever may write routes must not fill the memory of a gateway.
//!
//! An expression is a finite automaton whose size is known, and which needs nothing more while it matches. As in RE2, which Envoy uses,
//! `\\w`, `\\d`, `\\s` and `\\b` mean ASCII.

use std::error::Error;

use regex_automata::{
    Anchored, Input, MatchKind,
    dfa::{Automaton, StartKind, dense, sparse},
    nfa::thompson,
    util::syntax,
};

/// The most bytes that each step of compiling an expression may need: 4,096 characters of names need a third of it.
const MAX_COMPILE_BYTES: usize = 1 << 20;

/// The most bytes of the expressions of a route: it has room for 25 with 4,096 characters of names.
const MAX_ROUTE_REGEX_BYTES: usize = 512 << 10;

/// The most bytes of the expressions of all routes of a Gateway. A short one has little more than 1 KiB.
pub(super) const MAX_GATEWAY_REGEX_BYTES: usize = 16 << 20;

/// A compiled regular expression. It matches the whole value, with or without anchors, as in Envoy.
#[derive(Debug)]
pub(super) struct Expression(sparse::DFA<Vec<u8>>);

/// The room for the expressions of a route.
#[derive(Debug)]
pub(super) struct Room {
    used: usize,
    /// An expression was too large. Finding this out is expensive, so no other must be compiled.
    pub(super) is_over: bool,
}

// === impl Room ===

impl Room {
    pub(super) const fn new() -> Self {
        Self { used: 0, is_over: false }
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }
}

// === impl Expression ===

impl Expression {
    /// Compiles an expression. The error says why it cannot be used.
    pub(super) fn new(text: &str, room: &mut Room) -> Result<Self, String> {
        let too_large = |what: &str| {
            format!(
                "the regular expression `{text}` {what}: match exactly, or with lower counts of repetitions and fewer alternatives"
            )
        };
        let automaton = match automaton(text) {
            Ok(automaton) => automaton,
            Err(Some(why)) => return Err(format!("the regular expression `{text}` cannot be used: {why}")),
            Err(None) => {
                room.is_over = true;
                return Err(too_large(&format!("needs more than {MAX_COMPILE_BYTES} bytes")));
            }
        };
        let used = room.used + automaton.memory_usage() + size_of::<Self>();
        if used > MAX_ROUTE_REGEX_BYTES {
            room.is_over = true;
            return Err(too_large(&format!(
                "and those before it need more than {MAX_ROUTE_REGEX_BYTES} bytes together"
            )));
        }
        room.used = used;
        Ok(Self(automaton))
    }

    pub(super) fn accepts(&self, value: &[u8]) -> bool {
        let input = Input::new(value).anchored(Anchored::Yes);
        // The longest match. There are no errors: no byte makes this automaton give up.
        matches!(self.0.try_search_fwd(&input), Ok(Some(found)) if found.offset() == value.len())
    }
}

/// Compiles an expression. The error says what is wrong with it; nothing if it is too large.
fn automaton(text: &str) -> Result<sparse::DFA<Vec<u8>>, Option<String>> {
    let limit = Some(MAX_COMPILE_BYTES);
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(limit)
        .determinize_size_limit(limit);
    let mut builder = dense::Builder::new();
    builder
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(limit))
        .configure(config);
    let dense = builder.build(text).map_err(|error| innermost(&error));
    dense.and_then(|dense| dense.to_sparse().map_err(|error| innermost(&error))).map_err(|error| {
        // The text of an error of syntax begins with a drawing.
        let of_syntax = error.rsplit_once("error: ").map(|(_, cause)| cause.trim_end_matches('.').to_owned());
        of_syntax.or_else(|| error.starts_with("unsupported").then_some(error))
    })
}

fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
