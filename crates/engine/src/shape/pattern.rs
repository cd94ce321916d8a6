//! Regular expressions as automata over bytes: the answer as a whole matches.

use regex_automata::{
    Anchored, MatchKind,
    dfa::{Automaton, StartKind, dense},
    nfa::thompson,
    util::{alphabet::Unit, primitives::StateID, start},
};

/// Bytes of a regular expression.
const MAX_PATTERN_BYTES: usize = 16 << 10;
/// Bytes of its automaton, and of what building it takes.
const MAX_AUTOMATON_BYTES: usize = 8 << 20;
const MAX_BUILD_BYTES: usize = 32 << 20;

/// A regular expression.
pub(super) struct Pattern {
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
    /// For each state, whether a match can still come.
    leads: Vec<bool>,
}

/// The state of the automaton after the answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(StateID);

/// Builds the automaton of a regular expression, for the fuzz target.
pub(crate) fn probe(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(pattern) = Pattern::new(text) else { return };
    let mut place = pattern.start();
    for byte in text.bytes().chain(*b"a0 \n") {
        let Some(next) = pattern.after(place, byte) else { break };
        place = next;
    }
    assert!(!pattern.must_end(place) || pattern.may_end(place), "an answer can go on or end");
}

// === impl Pattern ===

impl Pattern {
    /// The error says why no answer can be made to match.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(format!(
                "the regular expression has {} bytes, expected {MAX_PATTERN_BYTES} at most",
                text.len()
            ));
        }
        let shown: String = text.chars().take(80).collect();
        // Its parser tells what is wrong with it; all that comes after is a matter of size, but for word boundaries.
        if let Err(error) = regex_syntax::parse(text) {
            let reason = match &error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                _ => "it is not understood".to_owned(),
            };
            return Err(format!("the regular expression `{shown}`: {reason}"));
        }
        let config = dense::Config::new()
            // All ways to match stay open, not only the first one.
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .accelerate(false)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(MAX_BUILD_BYTES));
        let too_large = || {
            format!(
                "the regular expression `{shown}` needs an automaton of more than {MAX_AUTOMATON_BYTES} bytes"
            )
        };
        let nfa = thompson::Compiler::new()
            .configure(thompson::Config::new().nfa_size_limit(Some(MAX_AUTOMATON_BYTES)))
            .build(text)
            .map_err(|_| too_large())?;
        let automaton = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|error| {
            if error.is_size_limit_exceeded() {
                too_large()
            } else {
                format!(
                    "the regular expression `{shown}` has Unicode word boundaries, which are not supported"
                )
            }
        })?;
        let start = automaton
            .start_state(&start::Config::new().anchored(Anchored::Yes))
            .map_err(|_| format!("the regular expression `{shown}` has no start state"))?;
        let leads = leads(&automaton, start);
        let pattern = Self { automaton, start, leads };
        if pattern.leads(start) {
            Ok(pattern)
        } else {
            Err(format!("no text matches the regular expression `{shown}`"))
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.automaton.memory_usage() + self.leads.len()
    }

    /// Before the first byte.
    pub(super) fn start(&self) -> Place {
        Place(self.start)
    }

    /// After one more byte; none where no match begins so.
    pub(super) fn after(&self, place: Place, byte: u8) -> Option<Place> {
        let next = self.automaton.next_state(place.0, byte);
        self.leads(next).then_some(Place(next))
    }

    /// Whether the answer matches.
    pub(super) fn may_end(&self, place: Place) -> bool {
        accepts(&self.automaton, place.0)
    }

    /// Whether nothing can follow.
    pub(super) fn must_end(&self, place: Place) -> bool {
        (0..=u8::MAX).all(|byte| self.after(place, byte).is_none())
    }

    fn leads(&self, state: StateID) -> bool {
        self.leads.get(number(&self.automaton, state)).is_some_and(|leads| *leads)
    }
}

/// Which state this is, counted from 0.
fn number(automaton: &dense::DFA<Vec<u32>>, state: StateID) -> usize {
    state.as_usize() >> automaton.stride2()
}

/// Whether a text that ends in a state matches.
fn accepts(automaton: &dense::DFA<Vec<u32>>, state: StateID) -> bool {
    automaton.is_match_state(automaton.next_eoi_state(state))
}

/// For each state that is reached from the first one, whether a match is reached from it.
fn leads(automaton: &dense::DFA<Vec<u32>>, start: StateID) -> Vec<bool> {
    let bytes: Vec<u8> =
        automaton.byte_classes().representatives(0..=u8::MAX).filter_map(Unit::as_u8).collect();
    let mut found = vec![start];
    // From which states a state is reached in one step.
    let mut before: Vec<Vec<StateID>> = Vec::new();
    let mut is_known: Vec<bool> = Vec::new();
    let grow = |number: usize, before: &mut Vec<Vec<StateID>>, is_known: &mut Vec<bool>| {
        if before.len() <= number {
            before.resize(number + 1, Vec::new());
            is_known.resize(number + 1, false);
        }
    };
    grow(number(automaton, start), &mut before, &mut is_known);
    is_known[number(automaton, start)] = true;
    let mut at = 0;
    while let Some(state) = found.get(at).copied() {
        at += 1;
        for byte in &bytes {
            let next = automaton.next_state(state, *byte);
            if automaton.is_dead_state(next) || automaton.is_quit_state(next) {
                continue;
            }
            let number = number(automaton, next);
            grow(number, &mut before, &mut is_known);
            if !is_known[number] {
                is_known[number] = true;
                found.push(next);
            }
            if before[number].last() != Some(&state) {
                before[number].push(state);
            }
        }
    }
    let mut leads = vec![false; before.len()];
    let mut open: Vec<StateID> = found.into_iter().filter(|state| accepts(automaton, *state)).collect();
    while let Some(state) = open.pop() {
        let number = number(automaton, state);
        if !std::mem::replace(&mut leads[number], true) {
            open.extend(before[number].iter().copied());
        }
    }
    leads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a text matches, and whether it is at least the beginning of a match.
    fn judged(pattern: &str, text: &str) -> (bool, bool) {
        let pattern = Pattern::new(pattern).unwrap();
        let mut place = pattern.start();
        for byte in text.bytes() {
            match pattern.after(place, byte) {
                Some(next) => place = next,
                None => return (false, false),
            }
        }
        (pattern.may_end(place), true)
    }

    #[test]
    fn texts_match_as_a_whole_and_whichever_way_they_can() {
        for (pattern, text, expected) in [
            (r"\d{3}-\d{4}", "555-1234", (true, true)),
            (r"\d{3}-\d{4}", "555-12345", (false, false)),
            (r"\d{3}-\d{4}", "555-", (false, true)),
            ("a|ab|abc", "ab", (true, true)),
            ("a|ab|abc", "abc", (true, true)),
            ("(a*)*b?", "aaab", (true, true)),
            ("^yes$|no", "yes", (true, true)),
            ("^yes$|no", "yesno", (false, false)),
            ("[äö]+", "äöä", (true, true)),
            ("[^a]", "é", (true, true)),
            (".", "\n", (false, false)),
            ("", "", (true, true)),
            ("", "a", (false, false)),
            // No byte leads into what cannot match any more.
            ("a(b$c|d)", "ab", (false, false)),
            (r"a\Ab|c", "a", (false, false)),
        ] {
            assert_eq!(judged(pattern, text), expected, "{pattern} {text}");
        }
        let halves = Pattern::new("[é]").unwrap();
        let half = halves.after(halves.start(), "é".as_bytes()[0]).unwrap();
        assert!(!halves.may_end(half), "half of a character is no text");
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_the_reason() {
        for (pattern, words) in [
            ("(", "the regular expression `(`: unclosed group"),
            (r"(?=a)b", "the regular expression `(?=a)b`: look-around"),
            (r"(a)\1", r"the regular expression `(a)\1`: backreferences are not supported"),
            (r"\bа", r"the regular expression `\bа` has Unicode word boundaries, which are not supported"),
            (r"[a&&b]", "no text matches the regular expression `[a&&b]`"),
            (r"a^b", "no text matches the regular expression `a^b`"),
            (
                r"(\w{1000}){1000}",
                r"the regular expression `(\w{1000}){1000}` needs an automaton of more than",
            ),
            (
                "(a|b)*a(a|b){200}",
                "the regular expression `(a|b)*a(a|b){200}` needs an automaton of more than",
            ),
        ] {
            let error = Pattern::new(pattern).map(|_| ()).unwrap_err();
            assert!(error.starts_with(words), "{pattern}: {error}");
        }
        let error = Pattern::new(&"(".repeat(300)).map(|_| ()).unwrap_err();
        assert!(!error.is_empty());
        assert!(Pattern::new(&"a".repeat(MAX_PATTERN_BYTES + 1)).is_err());
    }
}
