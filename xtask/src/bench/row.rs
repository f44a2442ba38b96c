//! The rows of the table of `bench protocol`, and the turns of each peer at a row.

use super::{http, measurement::Measurement, peer::Peer, stdio};

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    Http(http::Row),
    Stdio(stdio::Row),
}

/// The turns of one peer at one row.
#[derive(Debug)]
pub(super) struct Turns {
    pub(super) row: Row,
    pub(super) peer: Peer,
    pub(super) measurements: Vec<Measurement>,
}

impl Row {
    pub(super) fn all() -> Vec<Self> {
        let http = http::Row::all().into_iter().map(Self::Http);
        http.chain(stdio::Row::all().into_iter().map(Self::Stdio)).collect()
    }

    pub(super) fn exists_for(self, peer: Peer) -> bool {
        match self {
            Self::Http(row) => row.exists_for(peer),
            Self::Stdio(_) => true,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Http(row) => row.bytes,
            Self::Stdio(row) => row.bytes,
        }
    }

    pub(super) fn description(self) -> String {
        let size = if self.bytes() < 1 << 10 { "16 B" } else { "64 KiB" };
        match self {
            Self::Http(row) => {
                let answer = match row.answer {
                    http::Answer::Json => "JSON",
                    http::Answer::Events => "SSE",
                };
                format!("HTTP {} {answer} {size}", row.revision)
            }
            Self::Stdio(row) => {
                let how = if row.in_flight == 1 { "serial" } else { "pipelined" };
                format!("stdio {} {how} {size}", row.revision)
            }
        }
    }
}
