//! The operations of the API. The router and the OpenAPI document are both made of
//! [`Operation::ALL`].

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
    Result,
    Overrides,
    Override,
    Outcomes,
    Cases,
    History,
    Compare,
    Judges,
    Events,
    Configurations,
    CreateConfiguration,
    Configuration,
    DeleteConfiguration,
    RunConfiguration,
}

impl Operation {
    pub(super) const ALL: [Self; 22] = [
        Self::Health,
        Self::Run,
        Self::Batch,
        Self::Results,
        Self::Runs,
        Self::RunOfId,
        Self::Document,
        Self::CaseSchema,
        Self::Result,
        Self::Overrides,
        Self::Override,
        Self::Outcomes,
        Self::Cases,
        Self::History,
        Self::Compare,
        Self::Judges,
        Self::Events,
        Self::Configurations,
        Self::CreateConfiguration,
        Self::Configuration,
        Self::DeleteConfiguration,
        Self::RunConfiguration,
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
            Self::Result => "/api/test/results/{id}",
            Self::Overrides | Self::Override => "/api/test/results/{id}/overrides",
            Self::Outcomes => "/api/test/outcomes",
            Self::Cases => "/api/test/cases",
            Self::History => "/api/test/history",
            Self::Compare => "/api/test/compare",
            Self::Judges => "/api/test/judges",
            Self::Events => "/api/test/events",
            Self::Configurations | Self::CreateConfiguration => "/api/test/configurations",
            Self::Configuration | Self::DeleteConfiguration => "/api/test/configurations/{id}",
            Self::RunConfiguration => "/api/test/configurations/{id}/run",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Run
            | Self::Batch
            | Self::Override
            | Self::CreateConfiguration
            | Self::RunConfiguration => "post",
            Self::DeleteConfiguration => "delete",
            _ => "get",
        }
    }
}
