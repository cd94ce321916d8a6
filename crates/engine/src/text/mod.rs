//! Conversion between texts and tokens.

mod calls;
mod conversation;
mod json;
mod limits;
mod pieces;
mod stops;
mod template;
mod template_process;
mod tokenizer;
mod vocabulary;

use std::path::Path;

pub use self::template_process::{ROLE as TEMPLATE_ROLE, render_template};
pub(crate) use self::{
    calls::{AnswerPart, CLOSE, Calls, OPEN},
    pieces::Pieces,
    stops::{Patterns, Stops},
    template::{Template, probe as template_probe},
    tokenizer::{Tokenizer, probe as tokenizer_probe},
    vocabulary::probe as vocabulary_probe,
};
use crate::{LoadError, weights::Weights};

/// Loads the tokenizer of a model, from `tokenizer.json` beside the weights or from the vocabulary of a GGUF file.
pub(crate) fn load_tokenizer(folder: &Path, weights: &Weights) -> Result<Tokenizer, LoadError> {
    match weights {
        Weights::Gguf(file) => vocabulary::tokenizer(file),
        Weights::Safetensors(files) => Tokenizer::load(folder, files),
    }
}
