//! The location of endpoints: host, rack, zone and region, as labels tell them.

use serde::Deserialize;

use crate::{
    context::Context,
    endpoint::{Candidate, Endpoint},
};

/// The distance between two endpoints, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Host,
    Rack,
    Zone,
    Region,
    /// The endpoints share no known location.
    #[serde(skip)]
    Apart,
}

/// The labels with an endpoint's location, nearest level first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Topology {
    pub(crate) labels: [String; 4],
}

const LEVELS: [Level; 4] = [Level::Host, Level::Rack, Level::Zone, Level::Region];

impl Topology {
    fn place<'e>(&self, endpoint: &'e Endpoint) -> [Option<&'e str>; 4] {
        self.labels
            .each_ref()
            .map(|label| endpoint.labels.get(label).map(String::as_str).filter(|value| !value.is_empty()))
    }

    /// Returns the distance of each candidate from the endpoint that was picked before. Returns `None` if no endpoint was
    /// picked before, or if its location is not known.
    pub(crate) fn levels(&self, context: &Context<'_>, candidates: &[Candidate]) -> Option<Vec<Level>> {
        let peer = self.place(context.endpoint(context.peer.get()?));
        peer.iter().any(Option::is_some).then(|| {
            let near = |candidate: &Candidate| {
                let place = self.place(context.endpoint(*candidate));
                let shared =
                    (0..LEVELS.len()).find(|&level| place[level].is_some() && place[level] == peer[level]);
                shared.map_or(Level::Apart, |level| LEVELS[level])
            };
            candidates.iter().map(near).collect()
        })
    }
}
