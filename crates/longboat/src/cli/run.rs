//! The command line of `run` and `models`.

use clap::{Args, Subcommand};

use super::{output::OutputFormat, up::LocalArgs};

/// A model that a person names.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Model: a name that `longboat models show` lists, `hf://OWNER/MODEL[:REVISION]`, a GGUF file, or a folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// File of a repository with several models, or a pattern, such as `*Q4_K_M.gguf`
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Prompt to answer once, instead of a chat; standard input if that is no terminal
    #[arg(value_name = "PROMPT", value_parser = super::up::prompt)]
    pub(crate) prompt: Option<String>,
    /// System prompt
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["serve", "manifest"])]
    pub(crate) system: Option<String>,
    /// Temperature of answers, from 0 to 2. At 1, the default of the API, small models often lose the thread
    #[arg(long, value_name = "NUMBER", default_value_t = 0.7, value_parser = temperature, conflicts_with_all = ["serve", "manifest"])]
    pub(crate) temperature: f32,
    /// Serve the API until you press Ctrl-C, instead of a chat
    #[arg(long)]
    pub(crate) serve: bool,
    /// Print the manifest of the service, and start nothing
    #[arg(long, conflicts_with_all = ["serve", "prompt"])]
    pub(crate) manifest: bool,
    /// Port of the gateway on 127.0.0.1; 8080 with `--serve`, otherwise any free port
    #[arg(long)]
    pub(crate) port: Option<u16>,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Download a model into the cache
    Pull(ModelArgs),
    /// Show the models in the cache and their folders, in `LONGBOAT_CACHE` or the XDG cache folder
    Ls(ModelsListArgs),
    /// Remove models from the cache
    Rm(ModelsRemoveArgs),
    /// Show a model, or all models of the catalogue
    Show(ModelsShowArgs),
}

/// Arguments of `models ls`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

/// Arguments of `models rm`.
#[derive(Debug, Args)]
pub(crate) struct ModelsRemoveArgs {
    /// Names of the catalogue, addresses of models, or names of their folders in the cache
    #[arg(value_name = "MODEL", required_unless_present = "all")]
    pub(crate) models: Vec<String>,
    /// Remove all models
    #[arg(long, conflicts_with = "models")]
    pub(crate) all: bool,
}

/// Arguments of `models show`.
#[derive(Debug, Args)]
pub(crate) struct ModelsShowArgs {
    /// Model, as for `longboat run`; the catalogue if not given
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// File of a repository with several models, or a pattern, such as `*Q4_K_M.gguf`
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) file: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

/// Parses a temperature. The API takes no others.
fn temperature(text: &str) -> Result<f32, String> {
    let number = text.parse::<f32>().ok().filter(|number| (0.0..=2.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 2".into())
}
