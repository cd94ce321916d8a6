//! The bytes of every token.

/// The bytes of every token, in alphabetical order, so that tokens with the same beginning share the work for it.
pub(crate) struct SortedVocabulary {
    bytes: Vec<Vec<u8>>,
    /// The tokens sorted by their bytes, without tokens that have none.
    order: Vec<u32>,
}

// === impl Words ===

impl SortedVocabulary {
    /// Creates the table from the bytes of each token. Special tokens have none.
    pub(crate) fn new(bytes: Vec<Vec<u8>>) -> Self {
        let mut order: Vec<u32> =
            (0..).zip(&bytes).filter(|(_, bytes)| !bytes.is_empty()).map(|(token, _)| token).collect();
        order.sort_unstable_by(|a, b| bytes[*a as usize].cmp(&bytes[*b as usize]));
        Self { bytes, order }
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], Vec::as_slice)
    }

    /// Marks the tokens that may follow a state, where `after` gives the state after one more byte.
    pub(super) fn following<S>(&self, state: S, after: impl Fn(&S, u8) -> Option<S>, allowed: &mut [bool]) {
        // The states after each byte of the token before, up to the first byte that does not fit.
        let mut states = vec![state];
        let mut before: &[u8] = &[];
        for token in &self.order {
            let bytes = self.bytes(*token);
            let shared = bytes.iter().zip(before).take_while(|(a, b)| a == b).count();
            before = bytes;
            if shared >= states.len() {
                // The token begins with bytes that are not allowed.
                continue;
            }
            states.truncate(shared + 1);
            for byte in &bytes[shared..] {
                match states.last().and_then(|state| after(state, *byte)) {
                    Some(next) => states.push(next),
                    None => break,
                }
            }
            if states.len() == bytes.len() + 1
                && let Some(allowed) = allowed.get_mut(*token as usize)
            {
                *allowed = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{automaton::State, schema::Nodes};

    #[test]
    fn tokens_are_marked_that_fit_as_a_whole() {
        let words: Vec<Vec<u8>> = ["", "y", "yes", "yeti", "no", "n", "not", "ye", "x"]
            .map(|word| word.as_bytes().to_vec())
            .to_vec();
        let nodes = Nodes::choice(&["yes".into(), "no".into()]).unwrap();
        let mut allowed = vec![false; words.len()];
        SortedVocabulary::new(words).following(
            State::start(&nodes),
            |state, byte| state.after(&nodes, byte),
            &mut allowed,
        );
        assert_eq!(allowed, [false, true, true, false, true, true, false, true, false]);
    }
}
