//! `vllm launch render`: a server that converts prompts to tokens for pickers. It does not generate text. It reads the
//! tokenizer and no weights.

use std::sync::Arc;

use async_trait::async_trait;
use longboat_serving::{Card, Job, JobStart, Layout, Model, Refusal};

use crate::{
    Args, LoadError,
    engine::{apply_template, open},
    model::Config,
    text::{Template, Tokenizer, load_tokenizer},
};

/// A model's tokenizer and chat template.
pub(crate) struct Renderer {
    card: Card,
    tokenizer: Tokenizer,
    template: Option<Template>,
}

// === impl Renderer ===

impl Renderer {
    /// Reads the tokenizer, the chat template and the context length of a model.
    pub(crate) fn load(args: &Args) -> Result<Self, LoadError> {
        let (folder, weights) = open(args)?;
        let context = Config::of(&weights)?.context;
        Ok(Self {
            card: args.server.card(args.max_model_len.unwrap_or(context), "vllm"),
            tokenizer: load_tokenizer(folder, &weights)?,
            template: Template::load(args.template.as_deref(), folder, &weights, args.program.clone())?,
        })
    }
}

#[async_trait]
impl Model for Renderer {
    fn card(&self) -> &Card {
        &self.card
    }

    fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.tokens(text)
    }

    fn longest_token(&self) -> Option<usize> {
        Some(self.tokenizer.longest)
    }

    fn apply_chat_template(&self, layout: &Layout<'_>) -> Result<String, Refusal> {
        apply_template(&self.tokenizer, self.template.as_ref(), layout)
    }

    async fn start(self: Arc<Self>, _: Job) -> Result<JobStart, Refusal> {
        Err(Refusal::not_found(
            "This server only renders prompts: send this request to a server that was started with `vllm serve`.",
        ))
    }

    fn metrics(&self) -> String {
        // There are no series. The page has the end marker of OpenMetrics.
        "# EOF\n".to_owned()
    }
}
