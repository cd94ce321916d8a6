//! An automaton that decides which bytes may follow the bytes of an answer so far.
//!
//! A state is a set of stacks, because a byte may fit several alternatives. The symbol on top of a stack decides which byte
//! may come next. The symbols below it follow later. Stacks share their lower parts.

use std::sync::Arc;

use super::schema::{Id, Node, Nodes};

/// The most stacks of a state. Beyond this number, some valid answers can no longer be produced, but no invalid answer
/// becomes possible.
const MAX_STACKS: usize = 256;
/// The depth of nested values, times the symbols per level.
const MAX_DEPTH: usize = 256;
/// The most expansion steps without a byte. The limit is needed for a schema that only refers to itself.
const MAX_EXPANSION_STEPS: usize = 4096;
/// The most white space in one place, so that an answer cannot consist of white space only.
const MAX_WHITESPACE: u8 = 20;
/// The most digits in each part of a number.
const MAX_DIGITS: u8 = 18;

/// The state of an answer.
#[derive(Debug, Clone)]
pub(super) struct State(Vec<Stack>);

type Stack = Option<Arc<Cell>>;

#[derive(Debug)]
struct Cell {
    top: Symbol,
    below: Stack,
    depth: usize,
}

#[derive(Debug, Clone)]
enum Symbol {
    /// A value that has not begun.
    Value(Id),
    /// The bytes of a literal, from this position on.
    Literal(Id, usize),
    /// The bytes of a property's name, from this position on.
    Name(Id, usize, usize),
    /// One byte.
    Byte(u8),
    /// White space of at most this length.
    Space(u8),
    /// The rest of a string: the limits for its remaining characters, and the closing quote.
    Text {
        least: usize,
        most: usize,
    },
    /// The character after a backslash.
    Escape,
    /// This many hexadecimal digits.
    Hex(u8),
    /// The remaining bytes of a UTF-8 character.
    Continuation(u8),
    Number {
        whole: bool,
        part: Part,
        digits: u8,
    },
    /// The rest of an array or object after `[`, `{` or a member. It contains the number of members, or the used properties
    /// as bits.
    List {
        node: Id,
        count: usize,
    },
    Map {
        node: Id,
        is_first: bool,
    },
    Object {
        node: Id,
        used: u64,
    },
}

/// The position in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Sign,
    Start,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    Power,
}

#[expect(clippy::unnecessary_wraps, reason = "a stack that holds something is a stack")]
fn push(below: Stack, top: Symbol) -> Stack {
    let depth = below.as_ref().map_or(0, |below| below.depth) + 1;
    Some(Arc::new(Cell { top, below, depth }))
}

/// Pushes symbols onto a stack, so that the first one is on top.
fn push_all<const N: usize>(below: &Stack, symbols: [Symbol; N]) -> Stack {
    symbols.into_iter().rev().fold(below.clone(), push)
}

// === impl State ===

impl State {
    /// The state before the first byte.
    pub(super) fn start(nodes: &Nodes) -> Self {
        Self::closed(nodes, vec![push(None, Symbol::Value(nodes.root()))])
    }

    /// Whether the answer may end here.
    pub(super) fn may_end(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    /// Whether the answer must end here.
    pub(super) fn must_end(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Returns the state after one more byte. Returns `None` if the byte is not allowed.
    pub(super) fn after(&self, nodes: &Nodes, byte: u8) -> Option<Self> {
        let next: Vec<Stack> = self.0.iter().flatten().filter_map(|cell| step(nodes, cell, byte)).collect();
        if next.is_empty() {
            None
        } else {
            Some(Self::closed(nodes, next)).filter(|state| !state.0.is_empty())
        }
    }

    /// Expands the symbols on top of the stacks until each can consume a byte.
    fn closed(nodes: &Nodes, mut open: Vec<Stack>) -> Self {
        let mut closed = Vec::new();
        let mut steps = 0;
        while let Some(stack) = open.pop() {
            steps += 1;
            if closed.len() >= MAX_STACKS || steps > MAX_EXPANSION_STEPS {
                break;
            }
            match &stack {
                Some(cell) if cell.depth > MAX_DEPTH => {}
                Some(cell) => {
                    if expand(nodes, cell, &mut open) {
                        closed.push(stack);
                    }
                }
                None => closed.push(None),
            }
        }
        Self(closed)
    }
}

/// Adds the expansions of a stack that need no byte. Returns whether the stack itself can also consume a byte.
fn expand(nodes: &Nodes, cell: &Cell, open: &mut Vec<Stack>) -> bool {
    let below = &cell.below;
    let comma = [Symbol::Byte(b','), Symbol::Space(MAX_WHITESPACE)];
    match &cell.top {
        Symbol::Value(id) => {
            match nodes.get(*id) {
                Node::Either(ids) => {
                    open.extend(ids.iter().map(|id| push(below.clone(), Symbol::Value(*id))));
                }
                Node::Literal(bytes) if bytes.is_empty() => open.push(below.clone()),
                Node::Literal(_) => open.push(push(below.clone(), Symbol::Literal(*id, 0))),
                Node::Sequence(ids) => {
                    let values = ids.iter().rev().map(|id| Symbol::Value(*id));
                    open.push(values.fold(below.clone(), push));
                }
                Node::Text { least, most } => {
                    let rest = Symbol::Text { least: *least, most: *most };
                    open.push(push_all(below, [Symbol::Byte(b'"'), rest]));
                }
                Node::Number { whole } => {
                    let number = Symbol::Number { whole: *whole, part: Part::Sign, digits: 0 };
                    open.push(push(below.clone(), number));
                }
                Node::List { .. } => {
                    let rest = Symbol::List { node: *id, count: 0 };
                    open.push(push_all(below, [Symbol::Byte(b'['), Symbol::Space(MAX_WHITESPACE), rest]));
                }
                Node::Map { .. } => {
                    let rest = Symbol::Map { node: *id, is_first: true };
                    open.push(push_all(below, [Symbol::Byte(b'{'), Symbol::Space(MAX_WHITESPACE), rest]));
                }
                Node::Object { .. } => {
                    let rest = Symbol::Object { node: *id, used: 0 };
                    open.push(push_all(below, [Symbol::Byte(b'{'), Symbol::Space(MAX_WHITESPACE), rest]));
                }
            }
            false
        }
        Symbol::List { node, count } => {
            let Node::List { items, least, most } = nodes.get(*node) else { return false };
            if count >= least {
                open.push(push(below.clone(), Symbol::Byte(b']')));
            }
            if count < most {
                let rest = Symbol::List { node: *node, count: count + 1 };
                let member = [Symbol::Value(*items), Symbol::Space(MAX_WHITESPACE), rest];
                let member = push_all(below, member);
                open.push(if *count == 0 { member } else { push_all(&member, comma.clone()) });
            }
            false
        }
        Symbol::Map { node, is_first } => {
            let Node::Map { values } = nodes.get(*node) else { return false };
            open.push(push(below.clone(), Symbol::Byte(b'}')));
            let rest = Symbol::Map { node: *node, is_first: false };
            let member = push_all(
                below,
                [
                    Symbol::Byte(b'"'),
                    Symbol::Text { least: 0, most: usize::MAX },
                    Symbol::Space(MAX_WHITESPACE),
                    Symbol::Byte(b':'),
                    Symbol::Space(MAX_WHITESPACE),
                    Symbol::Value(*values),
                    Symbol::Space(MAX_WHITESPACE),
                    rest,
                ],
            );
            open.push(if *is_first { member } else { push_all(&member, comma.clone()) });
            false
        }
        Symbol::Object { node, used } => {
            let Node::Object { properties } = nodes.get(*node) else { return false };
            let is_used = |number: usize| used & (1 << number) != 0;
            let missing = |(number, (_, _, required)): (usize, &(_, _, bool))| *required && !is_used(number);
            if !properties.iter().enumerate().any(missing) {
                open.push(push(below.clone(), Symbol::Byte(b'}')));
            }
            for (number, (_, value, _)) in
                properties.iter().enumerate().filter(|(number, _)| !is_used(*number))
            {
                let member = push_all(
                    below,
                    [
                        Symbol::Name(*node, number, 0),
                        Symbol::Space(MAX_WHITESPACE),
                        Symbol::Byte(b':'),
                        Symbol::Space(MAX_WHITESPACE),
                        Symbol::Value(*value),
                        Symbol::Space(MAX_WHITESPACE),
                        Symbol::Object { node: *node, used: used | (1 << number) },
                    ],
                );
                open.push(if *used == 0 { member } else { push_all(&member, comma.clone()) });
            }
            false
        }
        Symbol::Space(most) => {
            open.push(below.clone());
            *most > 0
        }
        Symbol::Number { part: Part::Zero | Part::Digits | Part::Fraction | Part::Power, .. } => {
            open.push(below.clone());
            true
        }
        _ => true,
    }
}

/// Returns the stack after a byte. Returns `None` if the byte does not match the top symbol.
fn step(nodes: &Nodes, cell: &Cell, byte: u8) -> Option<Stack> {
    let below = &cell.below;
    let again = |symbol: Symbol| Some(push(below.clone(), symbol));
    match &cell.top {
        Symbol::Byte(expected) => (byte == *expected).then(|| below.clone()),
        Symbol::Literal(id, at) => {
            let Node::Literal(bytes) = nodes.get(*id) else { return None };
            spelled(bytes, *at, byte, below, Symbol::Literal(*id, at + 1))
        }
        Symbol::Name(id, number, at) => {
            let Node::Object { properties } = nodes.get(*id) else { return None };
            spelled(&properties[*number].0, *at, byte, below, Symbol::Name(*id, *number, at + 1))
        }
        Symbol::Space(most) => match byte {
            b' ' | b'\n' | b'\t' | b'\r' => again(Symbol::Space(most - 1)),
            _ => None,
        },
        Symbol::Text { least, most } => {
            if byte == b'"' {
                return (*least == 0).then(|| below.clone());
            }
            let rest = Symbol::Text { least: least.saturating_sub(1), most: most.checked_sub(1)? };
            let rest = push(below.clone(), rest);
            match byte {
                b'\\' => Some(push(rest, Symbol::Escape)),
                0x20..0x80 => Some(rest),
                0xc2..0xe0 => Some(push(rest, Symbol::Continuation(1))),
                0xe0..0xf0 => Some(push(rest, Symbol::Continuation(2))),
                0xf0..0xf5 => Some(push(rest, Symbol::Continuation(3))),
                _ => None,
            }
        }
        Symbol::Escape => match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(below.clone()),
            b'u' => again(Symbol::Hex(4)),
            _ => None,
        },
        Symbol::Hex(left) => {
            let rest = || if *left > 1 { push(below.clone(), Symbol::Hex(left - 1)) } else { below.clone() };
            // Escapes that begin with `d` may be halves of surrogate pairs, and each half would need the other one. So they
            // are not allowed.
            let fits = byte.is_ascii_hexdigit() && !(*left == 4 && matches!(byte, b'd' | b'D'));
            fits.then(rest)
        }
        Symbol::Continuation(left) => match byte {
            0x80..0xc0 if *left > 1 => again(Symbol::Continuation(left - 1)),
            0x80..0xc0 => Some(below.clone()),
            _ => None,
        },
        Symbol::Number { whole, part, digits } => {
            let (part, counts) = number(*part, *whole, byte)?;
            let digits = if counts { digits + 1 } else { 0 };
            if digits > MAX_DIGITS || (part == Part::Power && digits > 2) {
                return None;
            }
            again(Symbol::Number { whole: *whole, part, digits })
        }
        // `expand` has already replaced these symbols.
        Symbol::Value(_) | Symbol::List { .. } | Symbol::Map { .. } | Symbol::Object { .. } => None,
    }
}

/// Consumes one byte of a fixed text. Returns the stack with `rest`, or the stack below when the text is complete.
fn spelled(bytes: &[u8], at: usize, byte: u8, below: &Stack, rest: Symbol) -> Option<Stack> {
    if bytes.get(at) != Some(&byte) {
        return None;
    }
    Some(if at + 1 == bytes.len() { below.clone() } else { push(below.clone(), rest) })
}

/// Returns the next part of a number, and whether the byte is a further digit of it.
fn number(part: Part, whole: bool, byte: u8) -> Option<(Part, bool)> {
    match (part, byte) {
        (Part::Sign, b'-') => Some((Part::Start, false)),
        (Part::Sign | Part::Start, b'0') => Some((Part::Zero, false)),
        (Part::Sign | Part::Start, b'1'..=b'9') | (Part::Digits, b'0'..=b'9') => Some((Part::Digits, true)),
        (Part::Zero | Part::Digits, b'.') if !whole => Some((Part::Point, false)),
        (Part::Point | Part::Fraction, b'0'..=b'9') => Some((Part::Fraction, true)),
        (Part::Zero | Part::Digits | Part::Fraction, b'e' | b'E') if !whole => Some((Part::Exponent, false)),
        (Part::Exponent, b'+' | b'-') => Some((Part::ExponentSign, false)),
        (Part::Exponent | Part::ExponentSign | Part::Power, b'0'..=b'9') => Some((Part::Power, true)),
        _ => None,
    }
}
