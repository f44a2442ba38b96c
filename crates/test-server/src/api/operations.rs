//! The operations of the API. The router and the OpenAPI document are both made of [`Operation::ALL`].

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Health,
    Run,
    Batch,
    Results,
    Runs,
    RunOfId,
    Document,
    CaseSchema,
}

impl Operation {
    pub(super) const ALL: [Self; 8] = [
        Self::Health,
        Self::Run,
        Self::Batch,
        Self::Results,
        Self::Runs,
        Self::RunOfId,
        Self::Document,
        Self::CaseSchema,
    ];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Health => "/api/test/health",
            Self::Run => "/api/test/run",
            Self::Batch => "/api/test/batch",
            Self::Results => "/api/test/results",
            Self::Runs => "/api/test/runs",
            Self::RunOfId => "/api/test/runs/{id}",
            Self::Document => "/api/test/openapi.json",
            Self::CaseSchema => "/api/test/schema.json",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Run | Self::Batch => "post",
            _ => "get",
        }
    }
}
