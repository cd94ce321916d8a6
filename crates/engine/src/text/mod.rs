//! Conversion between texts and tokens.

mod calls;
mod limits;
mod pieces;
mod stops;
mod template;
mod template_process;
mod tokenizer;
mod vocabulary;

pub use self::template_process::{ROLE as TEMPLATE_ROLE, render_template};
pub(crate) use self::{
    calls::{AnswerPart, CLOSE, Calls, OPEN},
    pieces::Pieces,
    stops::{Patterns, Stops},
    template::{Template, probe as template_probe},
    tokenizer::{Tokenizer, probe as tokenizer_probe},
    vocabulary::probe as vocabulary_probe,
};
