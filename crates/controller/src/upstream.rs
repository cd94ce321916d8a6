//! Flags of the reference's manager that manifests and test harnesses use, and that have no effect here. They are accepted,
//! so that command lines need no change. A flag that should have an effect causes a warning.

/// Flags without an effect.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Accepted for compatibility, without effect")]
pub struct Upstream {
    /// Requests per second to the API server. Requests are not limited; the API server limits them with priority and
    /// fairness.
    #[arg(long, value_name = "N")]
    kube_api_qps: Option<f64>,

    /// Burst of requests to the API server. Requests are not limited.
    #[arg(long, value_name = "N")]
    kube_api_burst: Option<i64>,
}

// === impl Upstream ===

impl Upstream {
    /// Returns warnings for the user who started the process: one sentence for each flag that would have had an effect.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let ineffective = [
            (self.kube_api_qps.is_some(), "--kube-api-qps", "Longboat does not limit its requests"),
            (self.kube_api_burst.is_some(), "--kube-api-burst", "Longboat does not limit its requests"),
        ];
        let ineffective = ineffective.into_iter().filter(|(is_set, ..)| *is_set);
        ineffective.map(|(_, flag, instead)| format!("{flag} has no effect: {instead}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::Upstream;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        upstream: Upstream,
    }

    fn warnings(flags: &[&str]) -> usize {
        let line = std::iter::once("controller").chain(flags.iter().copied());
        Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).upstream.warnings().len()
    }

    #[test]
    fn what_manifests_pass_is_accepted_and_what_does_nothing_is_said() {
        assert_eq!(warnings(&[]), 0);
        assert_eq!(warnings(&["--kube-api-qps=20", "--kube-api-burst=30"]), 2);
    }
}
