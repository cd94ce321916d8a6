//! The part of the command line that each model server has.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use crate::{
    ApiKeys, ArgsError, Card, CommandLine, Flag, ListenOptions, Purpose, api_keys, clock::now, kv_events,
};

/// The vLLM release whose API the servers have. Presets choose flags by the output of `vllm --version`.
pub const ENGINE_VERSION: &str = "0.22.0";

/// The settings that each model server has, under the names of vLLM's flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerArgs {
    /// The address to listen on. With port 0, the system chooses the port.
    pub address: SocketAddr,
    /// A folder, a file or a repository.
    pub model: String,
    /// The names under which the model is served, at least one.
    pub names: Vec<String>,
    /// The use of the model. The default is the use for which it was trained.
    pub purpose: Purpose,
    /// Where the events of the prefix cache are published. `None` if they are not published.
    pub kv_events: Option<kv_events::Settings>,
    /// How the server listens, and how it shuts down.
    pub listen: ListenOptions,
    /// Words and flags without effect.
    pub ignored: Vec<String>,
}

// === impl ServerArgs ===

impl Default for ServerArgs {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)),
            model: String::new(),
            names: Vec::new(),
            purpose: Purpose::Auto,
            kv_events: None,
            listen: ListenOptions { shutdown_timeout: Duration::from_secs(5), ..ListenOptions::default() },
            ignored: Vec::new(),
        }
    }
}

impl ServerArgs {
    /// Reads the settings, and returns the flags that are none of them.
    pub fn parse(CommandLine { words, flags }: CommandLine) -> Result<(Self, Vec<Flag>), ArgsError> {
        let mut words = words.into_iter();
        let mut args = Self {
            model: words.next().unwrap_or_default(),
            purpose: Purpose::of(&flags)?,
            ignored: words.collect(),
            ..Self::default()
        };
        let (mut certificate, mut key) = (None, None);
        let mut others = Vec::new();
        for flag in flags {
            match flag.name.as_str() {
                "host" => args.address.set_ip(flag.value::<IpAddr>()?),
                "port" => args.address.set_port(flag.value()?),
                "model" => args.model = flag.value()?,
                "served-model-name" => args.names = flag.names(),
                // `Purpose` has already combined these flags.
                "runner" | "convert" | "task" => {}
                "kv-events-config" => args.kv_events = Some(flag.value()?),
                "api-key" => args.listen.keys = Some(ApiKeys::new(flag.values())),
                // vLLM accepts only whole seconds here.
                "shutdown-timeout" => args.listen.shutdown_timeout = Duration::from_secs(flag.value()?),
                "ssl-certfile" => certificate = Some(PathBuf::from(flag.text()?)),
                "ssl-keyfile" => key = Some(PathBuf::from(flag.text()?)),
                _ => others.push(flag),
            }
        }
        args.listen.certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(ArgsError::Missing("--ssl-keyfile".into())),
            (None, Some(_)) => return Err(ArgsError::Missing("--ssl-certfile".into())),
        };
        if args.model.is_empty() {
            return Err(ArgsError::NoModel);
        }
        if args.names.is_empty() {
            args.names.push(args.model.clone());
        }
        Ok((args, others))
    }

    /// Reads the key in the environment, which counts if no flag has one.
    pub fn read_key(&mut self, variable: impl Fn(&str) -> Option<String>) {
        self.listen.keys.get_or_insert_with(|| ApiKeys::new(variable(api_keys::VARIABLE).as_deref()));
    }

    /// The description of the model, which `/v1/models` shows.
    pub fn card(&self, max_model_len: usize, owner: &'static str) -> Card {
        Card { names: self.names.clone(), root: self.model.clone(), max_model_len, created: now(), owner }
    }
}
