//! `precise-prefix-cache-scorer`: a precise prefix producer and its scorer in one, as before router 0.9. If a producer is declared
//! before it, it reads that one.

use super::prefix_cache::PrefixCache;
use crate::{
    prelude::*,
    producers::precise_prefix::{RawParameters, declare},
};

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let prefix = match builder.precise_producers[..] {
        [] => declare(parameters.read::<RawParameters>()?, parameters, builder)?,
        [producer] => {
            if parameters.value.is_some() {
                let why = format!(
                    "no effect: set them at plugin \"{}\", which this plugin reads",
                    builder.producers[producer].name
                );
                builder.warnings.push((parameters.name.to_owned(), why));
            }
            producer
        }
        _ => {
            let message = "several precise-prefix-cache-producers are declared; write prefix-cache-scorer with \
                           prefixMatchInfoProducerName";
            return Err(parameters.invalid("", message));
        }
    };
    Ok(Plugin::scorer(PrefixCache::by_share(prefix)))
}
