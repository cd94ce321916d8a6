//! `header-label-affinity-scorer` (alpha): prefers endpoints whose label equals a request header.

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct HeaderLabel {
    header_name: String,
    label_key: String,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let mut scorer: HeaderLabel = parameters.read()?;
    parameters.require(
        !scorer.header_name.is_empty() && !scorer.label_key.is_empty(),
        "",
        "headerName and labelKey are required",
    )?;
    scorer.header_name.make_ascii_lowercase();
    Ok(Plugin::scorer(scorer))
}

impl Scorer for HeaderLabel {
    fn score(&self, context: &Context<'_>, candidates: &[Candidate], scores: &mut [f64]) {
        let wanted = context.request.headers.header(&self.header_name).filter(|wanted| !wanted.is_empty());
        let Some(wanted) = wanted else { return };
        for (score, &candidate) in scores.iter_mut().zip(candidates) {
            let label = context.endpoint(candidate).labels.get(&self.label_key);
            *score = f64::from(label.is_some_and(|label| label == wanted));
        }
    }
}
