//! Limits the size of an expression before it is parsed.
//!
//! The parser, and every function that walks over its result, recurses for each bracket and each link of a chain. An
//! expression that is deep enough would overflow the stack.

/// The longest expression in characters, as in the reference.
const MAX_EXPRESSION_CHARS: usize = 100_000;
/// The deepest nesting of brackets and chains together. The reference allows 250, on a stack that grows.
const MAX_NESTING: usize = 100;

/// Refuses expressions that are too long or too deep, worded like the reference.
pub(super) fn check(source: &str) -> Result<(), String> {
    let length = source.chars().count();
    if length > MAX_EXPRESSION_CHARS {
        return Err(format!(
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: {length}, limit {MAX_EXPRESSION_CHARS}"
        ));
    }
    if depth(source.as_bytes()) > MAX_NESTING {
        return Err(format!("ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_NESTING}"));
    }
    Ok(())
}

/// An upper bound of the depth of an expression's tree: the open brackets, and the links of the chain (`a.b.c`, `a + b + c`,
/// `a ? b : c ? d : e`) within each. The parser balances chains of `&&` and `||`, and these end other chains.
fn depth(source: &[u8]) -> usize {
    let mut deepest = 0;
    // the number of links of the enclosing chains, and of the current one
    let mut outer: Vec<usize> = Vec::new();
    let (mut sum, mut links, mut ternaries) = (0_usize, 0_usize, 0_usize);
    let mut at = 0;
    while let Some(byte) = source.get(at) {
        at += 1;
        match byte {
            b'"' | b'\'' => at = after_string(source, at - 1),
            b'`' => {
                at = source[at..]
                    .iter()
                    .position(|byte| *byte == b'`')
                    .map_or(source.len(), |end| at + end + 1);
            }
            b'/' if source.get(at) == Some(&b'/') => {
                at = source[at..].iter().position(|byte| *byte == b'\n').map_or(source.len(), |end| at + end);
            }
            b'(' | b'[' | b'{' => {
                outer.push(links);
                sum += links + 1;
                links = 0;
            }
            b')' | b']' | b'}' => {
                if let Some(before) = outer.pop() {
                    sum -= before + 1;
                    links = before + 1;
                }
            }
            b',' | b'&' | b'|' => links = 0,
            b'?' if !matches!(at.checked_sub(2).and_then(|before| source.get(before)), Some(b'.' | b'[')) => {
                ternaries += 1;
                links = 0;
            }
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' => links += 1,
            b'i' if source[at..].starts_with(b"n ") => links += 1,
            _ => {}
        }
        deepest = deepest.max(sum + links + ternaries);
    }
    deepest
}

/// The position after the string literal that starts at `at`.
fn after_string(source: &[u8], at: usize) -> usize {
    let quote = source[at];
    let raw = at > 0 && matches!(source[at - 1], b'r' | b'R')
        || at > 1 && matches!(source[at - 2], b'r' | b'R') && matches!(source[at - 1], b'b' | b'B');
    let marks = if source[at..].starts_with(&[quote; 3]) { 3 } else { 1 };
    let mut at = at + marks;
    while at < source.len() {
        if source[at] == b'\\' && !raw {
            at += 2;
        } else if source[at..].starts_with(&[quote; 3][..marks]) {
            return at + marks;
        } else if source[at] == b'\n' && marks == 1 {
            // the literal is invalid, so the text after it is counted
            return at;
        } else {
            at += 1;
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_depth_is_that_of_brackets_and_chains() {
        for (source, expected) in [
            ("self", 0),
            ("self.a.b", 2),
            ("self.a + self.b", 3),
            ("self.a && self.b && self.c", 1),
            ("self.all(x, x.a == 1)", 5),
            ("((1))", 2),
            ("'((((' == \"[[\\\"[[\" // (((", 2),
            ("r'\\' + ((1))", 3),
            ("'''a'(''' == 'b'", 2),
            ("a ? b : c ? d : e", 2),
            ("self.?a.?b", 2),
        ] {
            assert_eq!(depth(source.as_bytes()), expected, "{source}");
        }
    }

    #[test]
    fn deep_and_long_expressions_are_refused_before_they_are_parsed() {
        for source in [
            "size(".repeat(20_000),
            "[".repeat(20_000),
            "!".repeat(20_000),
            "-".repeat(20_000),
            format!("1{}", "+1".repeat(20_000)),
            format!("self{}", ".a".repeat(20_000)),
            format!("self{}", "[0]".repeat(20_000)),
            format!("true{}", " ? true : true".repeat(5_000)),
            "x".repeat(100_001),
        ] {
            let refused = check(&source).unwrap_err();
            assert!(refused.contains("limit"), "{refused}");
        }
        assert!(check(&"true && ".repeat(5_000)).is_ok());
    }
}
