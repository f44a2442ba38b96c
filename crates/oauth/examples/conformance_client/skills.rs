//! Skills: listed without being read, and loaded only if they are what they were listed as.

use crate::{Assignment, Failed, answers};

pub(crate) async fn list(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    client.list_skills().await?;
    client.close().await;
    Ok(())
}

/// Loads each skill, and then its other files.
pub(crate) async fn load(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(answers::options()).await?;
    for entry in client.list_skills().await? {
        let skill = client.load_skill(entry).await?;
        for file in skill.entry().resources.iter().flatten() {
            skill.read(&file.uri).await?;
        }
    }
    client.close().await;
    Ok(())
}
