//! Between texts and tokens.

mod pieces;
mod stops;
mod template;
mod tokenizer;
mod vocabulary;

pub(crate) use self::{pieces::Pieces, stops::Stops, template::Template, tokenizer::Tokenizer};
