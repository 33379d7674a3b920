package cosmoslease

// RoleDefinition is the data actions of a role that is enough, one in a line, but for
// Options.Create, which takes the account's key. Without executeQuery List and Sweep
// fail, without delete Sweep, with leasing.ErrDenied. The built-in role Cosmos DB
// Built-in Data Contributor has them all, and more:
// learn.microsoft.com/azure/cosmos-db/nosql/reference-data-plane-actions.
const RoleDefinition = `Microsoft.DocumentDB/databaseAccounts/readMetadata
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery`
