module zaichik.example/broker

go 1.22
