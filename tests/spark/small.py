"""Settings for a Spark with tiny tables: what it does to make large ones fast takes longer than it saves."""

# Most of the time goes into loading Spark's thousands of classes. So compile them lightly, collect garbage on one
# thread, and believe that they are well-formed: a third less processor time.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
}
