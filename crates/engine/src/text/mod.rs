//! Conversion between texts and tokens.

mod calls;
mod pieces;
mod stops;
mod template;
mod tokenizer;
mod vocabulary;

pub(crate) use self::{
    calls::{CLOSE, Calls, OPEN, Said},
    pieces::Pieces,
    stops::Stops,
    template::Template,
    tokenizer::Tokenizer,
};
