//! Splits text into tokens, and generates filler text.

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use xxhash_rust::xxh64::xxh64;

/// Splits text into pieces of about one word, each with the space before it, and numbers each piece by its content. This is
/// no model's tokenizer. Like one, it is deterministic, and its result for a piece does not depend on distant text.
pub(crate) fn tokens(text: &str) -> Vec<u32> {
    pieces(text).map(number).collect()
}

/// Returns the pieces of [`tokens`] in order. Joined, they are the original text.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let mut last = first;
        let mut end = rest.len();
        for (at, c) in chars {
            let joins =
                // A space joins the word after it only as the first character of the piece.
                c.is_alphanumeric() && (last.is_alphanumeric() || (last == ' ' && at == last.len_utf8()));
            if !joins {
                end = at;
                break;
            }
            last = c;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

fn number(piece: &str) -> u32 {
    u32::try_from(xxh64(piece.as_bytes(), 0) >> 32).unwrap_or_default()
}

const OPENINGS: [&str; 4] =
    ["This is simulated text", "The simulator answers", "No model is loaded", "Filler text follows"];
const SUBJECTS: [&str; 8] = [
    "the river",
    "a quiet harbour",
    "the old map",
    "every tide",
    "the crew",
    "a long voyage",
    "the northern wind",
    "salt water",
];
const VERBS: [&str; 8] =
    ["carries", "remembers", "follows", "keeps", "turns toward", "waits for", "answers", "measures"];
const OBJECTS: [&str; 8] = [
    "the open sea",
    "a distant light",
    "small stones",
    "the morning",
    "its own rhythm",
    "the far shore",
    "what was lost",
    "a new course",
];

/// Generates an answer of one to four sentences, or of at least `wanted` pieces if this is set.
pub(crate) fn filler(seed: u64, min_pieces: Option<usize>) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let sentences = random.random_range(1..=4);
    let opening = OPENINGS.choose(&mut random).copied().unwrap_or_default();
    let mut text = format!("{opening}:");
    let mut sentence = 0;
    let mut out: Vec<String> = Vec::new();
    while sentence <= sentences || min_pieces.is_some_and(|min_pieces| out.len() < min_pieces) {
        let pick =
            |random: &mut StdRng, words: &[&'static str]| words.choose(random).copied().unwrap_or_default();
        let subject = pick(&mut random, &SUBJECTS);
        let verb = pick(&mut random, &VERBS);
        let object = pick(&mut random, &OBJECTS);
        text.extend([" ", subject, " ", verb, " ", object, if sentence == sentences { "." } else { "," }]);
        out.extend(pieces(&text).map(Into::into));
        text.clear();
        sentence += 1;
    }
    if let Some(min_pieces) = min_pieces {
        out.truncate(min_pieces);
    }
    out
}

/// Returns other tokens for the same place, in a fixed order.
pub(crate) fn alternatives(chosen: &str) -> impl Iterator<Item = String> {
    let words = [SUBJECTS, VERBS, OBJECTS].into_iter().flatten().flat_map(|words| words.split(' '));
    let mut seen: Vec<&str> = vec![chosen.trim_start()];
    words
        .filter(move |word| {
            let is_new = !seen.contains(word);
            if is_new {
                seen.push(word);
            }
            is_new
        })
        .map(|word| format!(" {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_put_the_text_together_again() {
        for text in ["", " ", "Why is the sea salty?", "a  b\n\nc — ünï 𝄞x", "((1+2))=3 "] {
            assert_eq!(pieces(text).collect::<String>(), text);
        }
        assert_eq!(pieces("Why is it?").collect::<Vec<_>>(), ["Why", " is", " it", "?"]);
    }

    #[test]
    fn filler_is_reproducible_and_has_the_requested_length() {
        assert_eq!(filler(7, None), filler(7, None));
        assert_ne!(filler(7, None), filler(8, None));
        assert_eq!(filler(1, Some(500)).len(), 500);
        assert_eq!(filler(1, Some(1)).len(), 1);
    }
}
