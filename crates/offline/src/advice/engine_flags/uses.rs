//! Flags and their values, as vLLM's parser takes words apart.

use longboat_api::vllm::{
    self,
    flags::{Count, Flag},
};

use super::{
    reading::{Reading, read},
    words::{Word, Words},
};

/// A flag that is given.
pub(super) struct FlagUse<'a> {
    pub word: &'a Word,
    /// Its name as it is written.
    pub name: &'a str,
    /// The flag that has the name, in this version.
    pub flag: Option<(&'static str, &'static Flag)>,
    /// The value after an equals sign.
    pub inline: Option<&'a str>,
    /// The words after it that are its values.
    pub values: Vec<&'a Word>,
}

/// What words are.
#[derive(Default)]
pub(super) struct Uses<'a> {
    pub all: Vec<FlagUse<'a>>,
    /// Words that no flag takes.
    pub strays: Vec<&'a Word>,
    /// Whether a word is the model.
    pub is_model_named: bool,
    /// Whether a variable may add flags.
    pub is_open: bool,
}

// === impl Uses ===

impl<'a> Uses<'a> {
    pub(super) fn of(words: &'a Words) -> Self {
        // One word is the model, except where the start script names it.
        let mut uses = Self { is_model_named: words.is_preset, ..Self::default() };
        let mut rest = words.all.as_slice();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if !is_flag(word) {
                if !word.is_exact {
                    uses.is_open = true;
                } else if uses.is_model_named {
                    uses.strays.push(word);
                } else {
                    uses.is_model_named = true;
                }
                continue;
            }
            let (name, inline) = match (word.text.split_at_checked(2), word.text.split_once('=')) {
                // `-O3` and `-O=3`.
                (Some(("-O", level)), _) if !level.is_empty() => {
                    ("-O", Some(level.strip_prefix('=').unwrap_or(level)))
                }
                (_, Some((name, value))) => (name, Some(value)),
                _ => (word.text.as_str(), None),
            };
            let flag = vllm::flags::find(name);
            // For argparse, the word after a switch is a stray. A complaint about the switch says more.
            let is_switch = flag.is_some_and(|(_, flag)| flag.values == Count::None);
            let next = after.first().map(|word| word.text.as_str());
            if let Some(value) = next.filter(|next| is_switch && inline.is_none() && is_boolean(next)) {
                uses.all.push(FlagUse { word, name, flag, inline: Some(value), values: Vec::new() });
                rest = &after[1..];
                continue;
            }
            let following = after.iter().take_while(|word| !is_flag(word)).count();
            let taken = if inline.is_some() { 0 } else { takes(name, flag).min(following) };
            let (values, after) = after.split_at(taken);
            rest = after;
            uses.all.push(FlagUse { word, name, flag, inline, values: values.iter().collect() });
        }
        uses
    }

    /// Returns the last use of a flag.
    pub(super) fn last(&self, flag: &str) -> Option<&FlagUse<'a>> {
        self.all.iter().rev().find(|used| used.is(flag))
    }
}

// === impl FlagUse ===

impl<'a> FlagUse<'a> {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flag.is_some_and(|(name, _)| name == flag)
    }

    /// Returns all values.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        self.inline.into_iter().chain(self.values.iter().map(|word| word.text.as_str())).collect()
    }

    /// Returns the number that is its value.
    pub(super) fn number(&self) -> Option<i64> {
        let (_, flag) = self.flag?;
        match read(flag.kind, self.texts().first()?)? {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "saturates, and only whole numbers are compared"
            )]
            Reading::Number(number) => Some(number as i64),
            Reading::Other => None,
        }
    }
}

/// How many words a flag takes.
fn takes(name: &str, flag: Option<(&str, &Flag)>) -> usize {
    match flag {
        _ if name.contains('.') => 1,
        Some((_, flag)) if flag.values == Count::None => 0,
        Some((_, flag)) if matches!(flag.values, Count::One | Count::Optional) => 1,
        // Words after an unknown flag are its values rather than strays, which would be a second complaint.
        _ => usize::MAX,
    }
}

/// Whether a word is probably meant as the value of a switch.
fn is_boolean(text: &str) -> bool {
    ["true", "false"].contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a word is a flag, for vLLM's parser. Negative numbers and texts with spaces are values.
fn is_flag(word: &Word) -> bool {
    let name = word.text.split('=').next().unwrap_or_default();
    word.text.starts_with('-')
        && word.text.len() > 1
        && word.text.parse::<f64>().is_err()
        && !name.contains(char::is_whitespace)
}
