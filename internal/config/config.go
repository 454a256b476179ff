package config

import "time"

// Config is every setting. A field's key, its default (see Default) and its meaning are also in docs/configuration.md; a test keeps
// the two equal.
type Config struct {
	Tables    []Table   `key:"tables"`
	Budgets   Budgets   `key:"budgets"`
	Policy    Policy    `key:"policy"`
	Sources   Sources   `key:"sources"`
	Sink      Sink      `key:"sink"`
	Storage   Storage   `key:"storage"`
	Telemetry Telemetry `key:"telemetry"`
	HTTP      HTTP      `key:"http"`
}

// Table is one table that is followed. In a list of tables a path alone is short for a Table with that path.
type Table struct {
	Path       string        `key:"path" doc:"base path or URL of the table"`
	Name       string        `key:"name" doc:"name in URLs, metrics and logs; the path if left out"`
	Aliases    []string      `key:"aliases" doc:"other paths under which writers name the table, such as that inside their container"`
	Indexes    []string      `key:"indexes" doc:"indexes that must be there: a missing one is said; all that are there are followed in any case"`
	Sink       string        `key:"sink" doc:"URL of the place beside the table where its indexes lie; inside the table if left out"`
	Interval   time.Duration `key:"interval" doc:"overrides sources.poll.interval"`
	ZoneOffset string        `key:"zone_offset" doc:"offset of the table's instants from UTC, as in \"+02:00\"; derived if left out"`
	Budgets    TableBudgets  `key:"budgets"`
	Policy     TablePolicy   `key:"policy"`
}

// TableBudgets override a table's share of Budgets.
type TableBudgets struct {
	Calls  int  `key:"calls" doc:"calls of its store under way; its share of budgets.calls if left out"`
	Memory Size `key:"memory" doc:"what a batch of it holds in memory; its share of budgets.memory if left out"`
}

// TablePolicy overrides Policy for a table.
type TablePolicy struct {
	Attempts int `key:"attempts" doc:"overrides policy.attempts"`
}

// Budgets bound what the daemon takes, of all tables together.
type Budgets struct {
	Passes  int    `key:"passes" doc:"tables that are worked on at once; the other budgets are divided by it"`
	Calls   int    `key:"calls" doc:"calls of stores under way"`
	Memory  Size   `key:"memory" doc:"what batches hold in memory, at least 1MiB; what is beyond it goes to temporary files"`
	TempDir string `key:"temp_dir" doc:"folder for temporary files; the system's if left out"`
}

// Policy says what the daemon does about trouble.
type Policy struct {
	Attempts int           `key:"attempts" doc:"after how many failures a commit that cannot be compared is set aside; -1 for never"`
	Stuck    time.Duration `key:"stuck" doc:"after which time without an answer of its store a table is stalled and gives its turn away; at least 1s"`
	Grace    time.Duration `key:"grace" doc:"how long a batch may go on after the end was asked for; at most 5s, since all has to end within 10s"`
}

// Sources are what wakes a table's loop.
type Sources struct {
	Poll  Poll  `key:"poll"`
	Kafka Kafka `key:"kafka"`
}

// Poll is the safety net: it is always on.
type Poll struct {
	Interval time.Duration `key:"interval" doc:"every commit is noticed within it, whatever other sources do; at least 100ms"`
	Look     time.Duration `key:"look" doc:"how often a table is looked at as a whole though its timeline has not changed"`
}

// Kafka is where Hudi's commit callbacks are consumed. It is off without brokers.
type Kafka struct {
	Brokers    []string `key:"brokers" doc:"host:port of some of the cluster's brokers; none turns the source off"`
	Topic      string   `key:"topic" doc:"topic of the callbacks (hoodie.write.commit.callback.kafka.topic)"`
	Group      string   `key:"group" doc:"consumer group; processes of one group share the tables"`
	ClientID   string   `key:"client_id" doc:"name of this process in the broker's logs"`
	MaxMessage Size     `key:"max_message" doc:"a larger message is set aside and counted"`
	TLS        TLS      `key:"tls"`
	SASL       SASL     `key:"sasl"`
}

// TLS is how the connection to the brokers is encrypted.
type TLS struct {
	Enabled    bool   `key:"enabled" doc:"encrypt the connection"`
	CA         string `key:"ca" doc:"file of certificates (PEM) to trust in place of the system's"`
	Cert       string `key:"cert" doc:"file (PEM) of this process's certificate, where the broker asks for one"`
	Key        string `key:"key" doc:"file (PEM) of its key"`
	ServerName string `key:"server_name" doc:"name that the broker's certificate must have; the host if left out"`
}

// SASL is how this process logs in at the brokers.
type SASL struct {
	Mechanism string `key:"mechanism" doc:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; none if left out"`
	User      string `key:"user" doc:"user"`
	Password  Secret `key:"password" doc:"password"`
}

// Sink is how commits to the metadata table are made.
type Sink struct {
	Lease     time.Duration `key:"lease" doc:"how long the lease of a process that died keeps others out; at least 5s"`
	Lock      string        `key:"lock" doc:"lock shared with the tables' writers, held while a commit is made: none, process, storage, file, file:DIR or file:DIR:EXPIRE"`
	Retention time.Duration `key:"retention" doc:"how long files that are no longer in use are kept for searches that began before"`
}

// Storage is how stores are asked. Credentials come from each provider's own variables and files.
type Storage struct {
	RetryFor time.Duration `key:"retry_for" doc:"for how long a call that failed is made again"`
	MaxWait  time.Duration `key:"max_wait" doc:"longest pause between two of these"`
	Attempt  time.Duration `key:"attempt" doc:"how long one of them may take, beside the time for its bytes"`
	S3       S3            `key:"s3"`
	GS       GS            `key:"gs"`
	Azure    Azure         `key:"azure"`
}

// S3 overrides what the environment says about S3.
type S3 struct {
	Endpoint  string `key:"endpoint" doc:"URL of an S3-compatible server; AWS_ENDPOINT_URL_S3, then Amazon's own if left out"`
	Region    string `key:"region" doc:"region of the buckets; AWS_REGION if left out"`
	Profile   string `key:"profile" doc:"profile of the shared configuration files; AWS_PROFILE if left out"`
	PathStyle string `key:"path_style" doc:"true or false: the bucket is in the path, not the host name; true with an endpoint if left out"`
}

// GS overrides what the environment says about Google Cloud Storage.
type GS struct {
	Endpoint string `key:"endpoint" doc:"URL of an emulator; STORAGE_EMULATOR_HOST, then Google's own if left out"`
	Project  string `key:"quota_project" doc:"project that is billed; GOOGLE_CLOUD_QUOTA_PROJECT if left out"`
}

// Azure overrides what the environment says about Azure Blob Storage.
type Azure struct {
	Endpoint string `key:"endpoint" doc:"URL of the Blob service; AZURE_STORAGE_SERVICE_ENDPOINT, then the public cloud's if left out"`
}

// Telemetry is what the daemon says about itself. Metrics and traces also listen to the standard OTEL_ variables.
type Telemetry struct {
	LogLevel  string `key:"log_level" doc:"debug, info, warn or error"`
	LogFormat string `key:"log_format" doc:"text or json"`
}

// HTTP is the server for health, status, callbacks and the page. It is off without an address.
type HTTP struct {
	Address   string        `key:"address" doc:"host:port to listen at, as in 127.0.0.1:7427; none turns the server off"`
	Secret    Secret        `key:"secret" doc:"shared secret that callbacks and operator's decisions must carry; without one they are taken from this machine only"`
	BodyLimit Size          `key:"body_limit" doc:"largest body of a request; a callback has about 1 KiB for each file of its commit"`
	Rate      int           `key:"rate" doc:"requests a second that are served, twice as many at once; more are told to come back"`
	MaxWait   time.Duration `key:"max_wait" doc:"longest time that a request may wait for coverage"`
}

// Default returns the defaults.
func Default() Config {
	return Config{
		Budgets: Budgets{Passes: 2, Calls: 64, Memory: 192 << 20},
		Policy:  Policy{Attempts: 5, Stuck: 30 * time.Second, Grace: 4 * time.Second},
		Sources: Sources{
			Poll:  Poll{Interval: 10 * time.Second, Look: time.Minute},
			Kafka: Kafka{Group: "tidemark", ClientID: "tidemark", MaxMessage: 8 << 20},
		},
		Sink:      Sink{Lease: 30 * time.Second, Retention: time.Hour},
		Storage:   Storage{RetryFor: 2 * time.Minute, MaxWait: 10 * time.Second, Attempt: time.Minute},
		Telemetry: Telemetry{LogLevel: "info", LogFormat: "text"},
		HTTP:      HTTP{BodyLimit: 16 << 20, Rate: 100, MaxWait: 10 * time.Minute},
	}
}
